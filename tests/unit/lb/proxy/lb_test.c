#include "tests/fake/origdst.h"
#include "tests/unit/lb/proxy/lb_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define GET "GET /x HTTP/1.1\r\nHost: web\r\n\r\n"
#define OK(body_len, body) "HTTP/1.1 200 OK\r\nContent-Length: " body_len "\r\n\r\n" body
#define POST_CHUNKED "POST / HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n"

/* An address of the node leads to the gateway's port, one that no service has any more does not. */
static void
stale_addresses_lead_to_no_gateway(void **state)
{
	int client, upstream;

	(void)state;
	service_is_gateway(true);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	fake_origdst_set(0xc0000201, 80);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "a"));
	expect(client, OK("1", "a"));
	close(client);
	close(upstream);
	fake_origdst_set(0x09fb0777, 80);
	client = client_open();
	expect_reset(client);
	service_is_gateway(false);
	service_gone();
}

static void
a_request_each(void **state)
{
	int client, backs[2] = {-1, -1}, turn = -1;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 2);
	client = client_open();
	for (int i = 0; i < 6; i++) {
		char body[2] = "A";

		put(client, GET);
		if (i < 2)
			turn = endpoint_called(0, i == 0 ? 300 : 0) ? 0 : 1;
		else
			turn = !turn;
		if (i < 2)
			backs[turn] = endpoint_accept(turn);
		assert_non_null(strstr(head_at(backs[turn]), "GET /x HTTP/1.1\r\nHost: web\r\n"));
		body[0] = (char)('A' + turn);
		put(backs[turn], "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n");
		put(backs[turn], body);
		expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n");
		expect(client, body);
	}
	assert_true(backs[0] >= 0 && backs[1] >= 0);
	close(client);
	close(backs[0]);
	close(backs[1]);
}

static void
what_goes_upstream(void **state)
{
	int client, upstream;
	const char *head;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client,
		"GET http://b/x HTTP/1.1\r\nHost: web\r\nConnection: x-a\r\nX-A: "
		"1\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n");
	upstream = endpoint_accept(0);
	head = head_at(upstream);
	assert_non_null(strstr(
		head, "GET /x HTTP/1.1\r\nHost: b\r\nX-Forwarded-For: 1.2.3.4, 127.0.0.1\r\n"));
	/* No Via: what compresses for nobody behind a proxy would not for this client. */
	assert_non_null(strstr(head, "127.0.0.1\r\nCDN-Loop: edgeway\r\nX-Request-Id: "));
	assert_null(strstr(head, "Via"));
	assert_null(strstr(head, "X-A"));
	put(upstream, "HTTP/1.1 204 No\r\nConnection: x-b\r\nX-B: 1\r\nContent-Length: 3\r\n\r\n");
	expect(client, "HTTP/1.1 204 No\r\n\r\n");
	close(client);
	close(upstream);
}

static void
pipelined(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client,
		"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /2 "
		"HTTP/1.1\r\nHost: a\r\n\r\n"
		"HEAD /3 HTTP/1.1\r\nHost: a\r\n\r\nGET /4 HT");
	upstream = endpoint_accept(0);
	assert_non_null(strstr(head_at(upstream), "POST /1 "));
	expect(upstream, "abc");
	expect_silence(upstream, 50); /* the next only after the answer */
	put(upstream, OK("1", "1"));
	expect(client, OK("1", "1"));
	assert_non_null(strstr(head_at(upstream), "GET /2 "));
	put(upstream, OK("1", "2"));
	expect(client, OK("1", "2"));
	assert_non_null(strstr(head_at(upstream), "HEAD /3 "));
	put(upstream, OK("1", ""));
	expect(client, OK("1", ""));
	put(client, "TP/1.1\r\nHost: a\r\n\r\n");
	assert_non_null(strstr(head_at(upstream), "GET /4 "));
	put(upstream, OK("1", "4"));
	expect(client, OK("1", "4"));
	close(client);
	close(upstream);
}

static void
chunks_both_ways(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, POST_CHUNKED);
	upstream = endpoint_accept(0);
	assert_non_null(strstr(head_at(upstream), "\r\nTransfer-Encoding: chunked\r\n"));
	put(client, "0005;ext=1\r\nhello\r\n");
	expect(upstream, "5\r\nhello\r\n");
	put(client, "6\r\n world\r\n0\r\nHost: x\r\nX-Sum: 1\r\nContent-Length: 3\r\n\r\n");
	expect(upstream, "6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n");
	put(upstream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n03;x\r\nabc\r\n");
	expect(client, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	put(upstream, "0\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n");
	expect(client, "0\r\nX: y\r\n\r\n");
	/* Connection may name them: then they go no further. */
	put(client, GET);
	head_at(upstream);
	put(upstream,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: x\r\n\r\n0\r\nX: "
		"y\r\n\r\n");
	expect(client, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	/* An answer that only the endpoint's FIN ends leaves the client's connection open. */
	put(client, GET);
	head_at(upstream);
	put(upstream, "HTTP/1.0 200 OK\r\n\r\nxyz");
	shut(upstream);
	expect(client,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n");
	close(upstream);
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("0", ""));
	expect(client, OK("0", ""));
	close(client);
	close(upstream);
}

static void
old_clients(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	upstream = endpoint_accept(0);
	assert_non_null(strstr(head_at(upstream), "GET / HTTP/1.1\r\nHost: 9.251.1.2:80\r\n"));
	put(upstream, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" OK("1", "1"));
	expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n1");
	put(client, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	head_at(upstream);
	put(upstream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
	expect(client, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc");
	expect_eof(client);
	close(client);
	close(upstream);
}

/* Its last request is answered, and nothing more awaited from it: what it sends nevertheless is
 * refused. After a body or a long answer the connection stays until its own FIN. */
static void
clients_that_ask_for_the_close(void **state)
{
#define LAST " / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
	static const struct {
		const char *request;
		size_t answer_bytes;
		bool awaited;
	} cases[] = {{"GET" LAST "\r\n", 1, false}, {"HEAD" LAST "\r\n", 0, false},
		{"GET / HTTP/1.0\r\n\r\n", 1, false}, {"GET" LAST "\r\n", 20000, true},
		{"POST" LAST "Content-Length: 1\r\n\r\na", 1, true}};
	auto_free char *body = xcalloc(1, 20001);
	char head[64];

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	memset(body, 'b', 20000);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *rest = body + 20000 - cases[i].answer_bytes;
		int client = client_open(), upstream;

		put(client, cases[i].request);
		upstream = endpoint_accept(0);
		head_at(upstream);
		snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n",
			cases[i].answer_bytes);
		put(upstream, head);
		put(upstream, "Connection: close\r\n\r\n");
		put(upstream, rest);
		expect(client, head);
		expect(client, "Connection: close\r\n\r\n");
		expect(client, rest);
		expect_eof(client);
		put(client, "x");
		assert_int_equal(send(client, "x", 1, MSG_NOSIGNAL), cases[i].awaited ? 1 : -1);
		close(client);
		close(upstream);
	}
}

static void
interim_answers(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client,
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
	upstream = endpoint_accept(0);
	assert_non_null(strstr(head_at(upstream), "Expect: 100-continue\r\n"));
	put(upstream, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
	expect(client, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
	put(client, "abc");
	expect(upstream, "abc");
	put(upstream, OK("2", "ok"));
	expect(client, OK("2", "ok"));
	close(client);
	close(upstream);
}

/* Before its final answer an endpoint may say 103 for ever: it waits for a client that does not
 * read. */
static void
interim_flood_is_held_back(void **state)
{
	static const char hints[] = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
	enum { BLOCK = 1000, BLOCKS_MOST = 64 * 1024 * 1024 / (BLOCK * (sizeof hints - 1)) };
	struct timeval patience = {.tv_usec = 500 * 1000};
	static char block[BLOCK * (sizeof hints - 1)];
	int client, upstream, n = 0;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	endpoint_listen(0);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	read_until(upstream, "\r\n\r\n");
	for (size_t i = 0; i < BLOCK; i++)
		memcpy(block + i * (sizeof hints - 1), hints, sizeof hints - 1);
	setsockopt(upstream, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	while (n < BLOCKS_MOST && send(upstream, block, sizeof block, MSG_NOSIGNAL) > 0)
		n++;
	assert_in_range(n, 1, BLOCKS_MOST - 1);
	close(client);
	close(upstream);
}

static void
switched_protocols(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: "
		"websocket\r\n\r\nearly");
	upstream = endpoint_accept(0);
	assert_non_null(strstr(head_at(upstream), "Connection: upgrade\r\nUpgrade: websocket\r\n"));
	put(upstream,
		"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst");
	expect(client,
		"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst");
	expect(upstream, "early");
	put(client, "GET / not HTTP any more\n");
	expect(upstream, "GET / not HTTP any more\n");
	shut(client);
	expect_eof(upstream);
	put(upstream, "last");
	expect(client, "last");
	close(upstream);
	expect_eof(client);
	close(client);
}

static void
opaque_on_http_port(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "\x16\x03\x01\x02hello");
	upstream = endpoint_accept(0);
	expect(upstream, "\x16\x03\x01\x02hello");
	put(upstream, "server");
	expect(client, "server");
	close(client);
	expect_eof(upstream);
	close(upstream);
}

static void
early_answer_while_uploading(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nsome");
	upstream = endpoint_accept(0);
	head_at(upstream);
	expect(upstream, "some");
	put(upstream, "HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nbig");
	close(upstream);
	expect(client, "HTTP/1.1 413 No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
	put(client, "more");
	expect_eof(client);
	close(client);
}

static void
half_closed_client_gets_its_answer(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET GET);
	shut(client);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "1"));
	head_at(upstream);
	put(upstream, OK("1", "2"));
	read_until(client, "\r\n\r\n1");
	read_until(client, "\r\n\r\n2");
	expect_eof(client);
	close(client);
	close(upstream);
}

static void
no_endpoints_is_503(void **state)
{
	int client;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 0);
	client = client_open();
	for (int i = 0; i < 2; i++) {
		put(client, GET);
		assert_non_null(strstr(
			read_until(client, "\r\n\r\n"), "HTTP/1.1 503 Service Unavailable\r\n"));
		expect(client, "service default/web port 80 has no endpoints\n");
	}
	/* A change is seen by the next request of an open connection. */
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	put(client, GET);
	close(endpoint_accept(0));
	read_until(client, "\r\n\r\n");
	service_gone();
	close(client);
	client = client_open();
	expect_reset(client);
	close(client);
}

static void
dead_endpoint_costs_no_request(void **state)
{
	uint64_t ejected = metric("edgeway_lb_ejections_total ");
	int client, upstream = -1;

	(void)state;
	endpoint_down(1);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 2);
	client = client_open();
	for (int i = 0; i < 6; i++) {
		put(client, GET);
		if (upstream < 0)
			upstream = endpoint_accept(0);
		head_at(upstream);
		put(upstream, OK("1", "A"));
		expect(client, OK("1", "A"));
	}
	assert_int_equal(metric("edgeway_lb_ejections_total "), ejected + 1);
	close(upstream);
	close(client);
	/* Nobody left: an answer that says so. */
	endpoint_down(0);
	client = client_open();
	put(client, GET);
	assert_non_null(strstr(read_until(client, "\n\r\n"), "HTTP/1.1 502 Bad Gateway\r\n"));
	read_until(client, "accepts connections\n");
	close(client);
	endpoint_listen(0);
	endpoint_listen(1);
	service_gone();
	time_passes(2700); /* both are in use again */
}

static void
stale_connection(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "1"));
	expect(client, OK("1", "1"));
	/* The endpoint reads the next request and hangs up: a GET goes again, over a new
	 * connection. */
	put(client, GET);
	head_at(upstream);
	close_hard(upstream);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "2"));
	expect(client, OK("1", "2"));
	/* A POST does not: it may have been executed. */
	put(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
	head_at(upstream);
	expect(upstream, "x");
	close_hard(upstream);
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 502 "));
	read_until(client, "\n");
	assert_false(endpoint_called(0, 100));
	/* Surplus bytes poison no connection. */
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "3") OK("1", "X"));
	expect(client, OK("1", "3"));
	put(client, GET);
	close(upstream);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "4"));
	expect(client, OK("1", "4"));
	close(upstream);
	close(client);
}

/* An empty chunked body has been sent wholly, though no byte of it counts. */
static void
stale_connection_and_an_empty_body(void **state)
{
	static const char *const requests[] = {
		POST_CHUNKED "0\r\n\r\n",
		"PUT / HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	};
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		client = client_open();
		put(client, GET);
		upstream = endpoint_accept(0);
		head_at(upstream);
		put(upstream, OK("1", "1"));
		expect(client, OK("1", "1"));
		put(client, requests[i]);
		head_at(upstream);
		expect(upstream, "0\r\n\r\n");
		close_hard(upstream);
		assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 502 "));
		read_until(client, "\n");
		assert_false(endpoint_called(0, 100));
		close(client);
	}
}

static void
ask_and_hang_up(void *fds)
{
	put(((int *)fds)[0], "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
	close(((int *)fds)[1]);
}

/* The request is read before the FIN of the idle connection: its body cannot be sent twice, so that
 * is looked at first. */
static void
stale_connection_and_a_body(void **state)
{
	int fds[2], upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	fds[0] = client_open();
	put(fds[0], GET);
	fds[1] = endpoint_accept(0);
	head_at(fds[1]);
	put(fds[1], OK("1", "1"));
	expect(fds[0], OK("1", "1"));
	on_loop(ask_and_hang_up, fds);
	upstream = endpoint_accept(0);
	head_at(upstream);
	expect(upstream, "hi");
	put(upstream, OK("1", "2"));
	expect(fds[0], OK("1", "2"));
	close(fds[0]);
	close(upstream);
}

static void
cut_answers_are_not_whole(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
	expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
	close(upstream);
	expect_reset(client);
	close(client);
}

static void
bad_answers(void **state)
{
	static const char *const answers[] = {
		"SSH-2.0-OpenSSH\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 1\n\r1\n\n",
		"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	};

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		int client = client_open(), upstream;

		put(client, GET);
		upstream = endpoint_accept(0);
		head_at(upstream);
		put(upstream, answers[i]);
		if (strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 502 ") == NULL)
			fail_msg("answer %zu was relayed", i);
		close(client);
		close(upstream);
	}
}

/* Nothing of these may reach an endpoint, but what stands before them in the same connection. */
static void
smuggling(void **state)
{
	static const char *const payloads[] = {
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: "
		"chunked\r\n\r\n0\r\n\r\nGET /s HTTP/1.1\r\n"
		"Host: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\nGET /s "
		"HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5,0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, "
		"identity\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0b"
		"chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n",
		"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: a\rGET /s HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
		"GET /\r\n\r\n",
		"CONNECT b:22 HTTP/1.1\r\nHost: b:22\r\n\r\n",
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"\x80\x81 / HTTP/1.1\r\nHost: a\r\n\r\n",
	};

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (size_t i = 0; i < ARRAY_LEN(payloads); i++) {
		int client = client_open();
		const char *answer;

		put(client, payloads[i]);
		answer = read_until(client, "\r\n\r\n");
		if (strncmp(answer, "HTTP/1.1 4", 10) != 0 &&
			strncmp(answer, "HTTP/1.1 5", 10) != 0)
			fail_msg("payload %zu: %s", i, answer);
		assert_non_null(strstr(answer, "Connection: close\r\n"));
		read_until(client, "\n");
		expect_eof(client);
		if (endpoint_called(0, 0))
			fail_msg("payload %zu reached the endpoint", i);
		close(client);
	}
}

static void
broken_chunks_end_there(void **state)
{
	static const char *const bodies[] = {"5\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n",
		"g\r\n", "5\r\nhello\r\n0\r\nbad line\r\n\r\n", "fffffffffffffffff\r\n"};

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		int client = client_open(), upstream;
		char seen[256];
		ssize_t n;

		put(client, POST_CHUNKED);
		upstream = endpoint_accept(0);
		head_at(upstream);
		put(client, bodies[i]);
		put(client, "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
		assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 400 "));
		while ((n = recv(upstream, seen, sizeof seen - 1, 0)) > 0) {
			seen[n] = '\0';
			assert_null(strstr(seen, "0\r\n\r\n"));
			assert_null(strstr(seen, "smuggled"));
		}
		close(client);
		close(upstream);
	}
}

static void
limits_and_timeouts(void **state)
{
	static char big[40 * 1024];
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "1"));
	expect(client, OK("1", "1"));
	close(client);
	close(upstream);
	memset(big, 'a', sizeof big - 1);
	client = client_open();
	put(client, "GET /");
	put(client, big);
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 414 "));
	close(client);
	client = client_open();
	put(client, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
	put(client, big);
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 431 "));
	close(client);
	client = client_open();
	put(client, "GET / HTTP");
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 408 "));
	close(client);
	client = client_open();
	expect_eof(client); /* idle: silently */
	close(client);
	assert_false(endpoint_called(0, 0));
}

/* edgeway.io/request-timeout: from the request's last byte to the answer's head. */
static void
request_timeout(void **state)
{
	const struct service_lb quick = {.request_ms = 200, .retries = RETRIES_DEFAULT};
	uint64_t timeouts = metric("edgeway_lb_errors_total{reason=\"timeout\"} ");
	int client, upstream;

	(void)state;
	service_options(&quick);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	/* Bytes of a body, and of an answer, may take longer. */
	put(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na");
	upstream = endpoint_accept(0);
	head_at(upstream);
	expect_silence(client, 400);
	put(client, "b");
	expect(upstream, "ab");
	put(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
	expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
	expect_silence(client, 400);
	put(upstream, "b");
	expect(client, "b");
	/* 103 does not count as an answer. */
	put(client, GET);
	head_at(upstream);
	put(upstream, "HTTP/1.1 103 Early\r\n\r\n");
	expect(client, "HTTP/1.1 103 Early\r\n\r\n");
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 504 Gateway Timeout\r\n"));
	expect(client, "the endpoint did not answer in time\n");
	expect_reset(upstream);
	assert_int_equal(metric("edgeway_lb_errors_total{reason=\"timeout\"} "), timeouts + 1);
	/* The client's connection goes on. */
	close(upstream);
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "1"));
	expect(client, OK("1", "1"));
	close(client);
	close(upstream);
	service_options(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_each),
		cmocka_unit_test(stale_addresses_lead_to_no_gateway),
		cmocka_unit_test(what_goes_upstream),
		cmocka_unit_test(pipelined),
		cmocka_unit_test(chunks_both_ways),
		cmocka_unit_test(old_clients),
		cmocka_unit_test(clients_that_ask_for_the_close),
		cmocka_unit_test(interim_answers),
		cmocka_unit_test(interim_flood_is_held_back),
		cmocka_unit_test(switched_protocols),
		cmocka_unit_test(opaque_on_http_port),
		cmocka_unit_test(early_answer_while_uploading),
		cmocka_unit_test(half_closed_client_gets_its_answer),
		cmocka_unit_test(no_endpoints_is_503),
		cmocka_unit_test(stale_connection),
		cmocka_unit_test(stale_connection_and_a_body),
		cmocka_unit_test(stale_connection_and_an_empty_body),
		cmocka_unit_test(cut_answers_are_not_whole),
		cmocka_unit_test(bad_answers),
		cmocka_unit_test(smuggling),
		cmocka_unit_test(broken_chunks_end_there),
		cmocka_unit_test(limits_and_timeouts),
		cmocka_unit_test(request_timeout),
		cmocka_unit_test(dead_endpoint_costs_no_request),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
