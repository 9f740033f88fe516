#include "tests/unit/lb/proxy/lb_fixture.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define GET "GET /x HTTP/1.1\r\nHost: web\r\n\r\n"

/* What endpoints are told, what becomes of their answers: how these may be written, what of them
 * goes on, when another one is asked. */

/* A shell's answer: taken, and sent on clean; a client that writes so is refused. */
static void
answers_with_bare_lf(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, "HTTP/1.1 100 Go on\n\nHTTP/1.1 20");
	expect(client, "HTTP/1.1 100 Go on\r\n\r\n");
	put(upstream, "0 OK\nContent-Length: 3\nX: y\n\na\nb");
	expect(client, "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 3\r\n\r\na\nb");
	put(client, "GET /x HTTP/1.1\nHost: web\n\n");
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 400 "));
	close(client);
	close(upstream);
}

/* RFC 9110 section 15.5.22: a 426 without Upgrade tells nobody what is wanted. */
static void
offered_protocols(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream,
		"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n");
	expect(client,
		"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: "
		"upgrade\r\nUpgrade: websocket\r\n\r\n");
	put(client, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	head_at(upstream);
	put(upstream,
		"HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: "
		"0\r\n\r\n");
	expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n");
	close(client);
	close(upstream);
}

/* lb.via */
static void
via_for_who_wants_it(void **state)
{
	int client, upstream;

	(void)state;
	stop_lb(0);
	fixture_via(true);
	start_lb();
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "GET / HTTP/1.1\r\nHost: a\r\nVia: 1.0 p\r\n\r\n");
	upstream = endpoint_accept(0);
	assert_non_null(
		strstr(head_at(upstream), "\r\nVia: 1.0 p, 1.1 edgeway\r\nCDN-Loop: edgeway\r\n"));
	close(client);
	close(upstream);
	stop_lb(0);
	fixture_via(false);
	start_lb();
}

/* Who is slow if a body does not get on? Not a client whose bytes nobody takes. */
static void
endpoints_that_read_nothing(void **state)
{
	static char piece[65536];
	struct pollfd p = {.events = POLLOUT};
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
	upstream = endpoint_accept(0);
	p.fd = client;
	while (poll(&p, 1, 300) > 0 && (p.revents & POLLOUT) != 0)
		if (send(client, piece, sizeof piece, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			assert_int_equal(errno, EAGAIN);
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 504 Gateway Timeout\r\n"));
	close(client);
	close(upstream);
	client = client_open();
	put(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na");
	upstream = endpoint_accept(0);
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 408 "));
	close(client);
	close(upstream);
}

/* An endpoint that says nothing holds a request for 60 s (here 800 ms), not for an hour; what has
 * begun is not touched. */
static void
silent_endpoints(void **state)
{
	const struct service_lb plain = {
		.request_ms = REQUEST_MS_DEFAULT, .retries = RETRIES_DEFAULT};
	const struct service_lb patient = {.request_ms = 0, .retries = RETRIES_DEFAULT};
	uint64_t timeouts = metric("edgeway_lb_errors_total{reason=\"timeout\"} ");
	int client, upstream;

	(void)state;
	service_options(&plain);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	expect_silence(client, 400);
	put(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
	expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
	expect_silence(client, 1200);
	put(upstream, "b");
	expect(client, "b");
	put(client, GET);
	head_at(upstream);
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 504 Gateway Timeout\r\n"));
	expect(client, "the endpoint did not answer in time\n");
	expect_reset(upstream);
	close(upstream);
	assert_int_equal(metric("edgeway_lb_errors_total{reason=\"timeout\"} "), timeouts + 1);
	/* Who wants another protocol may wait for it, and so may everybody where the Service says
	 * so. */
	put(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
	upstream = endpoint_accept(0);
	head_at(upstream);
	expect_silence(client, 1200);
	put(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	close(upstream);
	service_options(&patient);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	expect_silence(client, 1200);
	put(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	close(client);
	close(upstream);
	service_options(NULL);
}

/* Which of the first two endpoints has a request now; it is read there. */
static int
asked(int backs[2])
{
	char byte;

	for (int ms = 0; ms < WAIT_MS; ms++) {
		for (int i = 0; i < 2; i++) {
			if (endpoint_called(i, 0)) {
				if (backs[i] >= 0)
					close(backs[i]);
				backs[i] = endpoint_accept(i);
			}
			if (backs[i] >= 0 &&
				recv(backs[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
				head_at(backs[i]);
				return i;
			}
		}
		time_passes(1);
	}
	fail_msg("nobody was asked");
	return -1;
}

#define ANSWER(status) "HTTP/1.1 " status "\r\nContent-Length: 0\r\n\r\n"

/* edgeway.io/retry-on: another endpoint is asked where that is safe, and there is one; what the
 * first one said goes nowhere. */
static void
asks_another_on_503(void **state)
{
	const struct service_lb again = {.retries = RETRIES_DEFAULT, .retry_on = RETRY_ON_503};
	uint64_t retries = metric("edgeway_lb_retries_total ");
	int client, backs[2] = {-1, -1}, first, second;

	(void)state;
	service_options(&again);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 2);
	client = client_open();
	put(client, GET);
	first = asked(backs);
	put(backs[first],
		"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbu");
	expect(client, "HTTP/1.1 100 Go on\r\n\r\n");
	second = asked(backs);
	assert_int_not_equal(second, first);
	put(backs[second], ANSWER("200 OK"));
	expect(client, ANSWER("200 OK"));
	assert_int_equal(metric("edgeway_lb_retries_total "), retries + 1);
	/* Another status, what may not be sent twice, and the last one's answer go on. */
	put(client, GET);
	put(backs[asked(backs)], ANSWER("502 Bad"));
	expect(client, ANSWER("502 Bad"));
	put(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
	put(backs[asked(backs)], ANSWER("503 Busy"));
	expect(client, ANSWER("503 Busy"));
	assert_int_equal(metric("edgeway_lb_retries_total "), retries + 1);
	put(client, GET);
	first = asked(backs);
	put(backs[first], ANSWER("503 First"));
	second = asked(backs);
	assert_int_not_equal(second, first);
	put(backs[second], ANSWER("503 Second"));
	expect(client, ANSWER("503 Second"));
	close(client);
	close(backs[0]);
	close(backs[1]);
	service_options(NULL);
}

/* edgeway.io/outlier-5xx: so many in a row, and it is out until an answer shows that it is well;
 * that it listens is no news. */
static void
out_for_errors(void **state)
{
	const struct service_lb strict = {.retries = RETRIES_DEFAULT, .outlier_5xx = 2};
	uint64_t ejections = metric("edgeway_lb_ejections_total ");
	int client, backs[2] = {-1, -1}, n_bad = 0, who;

	(void)state;
	service_options(&strict);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 2);
	client = client_open();
	while (n_bad < 2) {
		put(client, GET);
		who = asked(backs);
		n_bad += who == 0;
		put(backs[who], who == 0 ? ANSWER("500 No") : ANSWER("200 OK"));
		expect(client, who == 0 ? ANSWER("500 No") : ANSWER("200 OK"));
	}
	assert_int_equal(metric("edgeway_lb_ejections_total "), ejections + 1);
	time_passes(500); /* probes find that it listens */
	for (int i = 0; i < 4; i++) {
		put(client, GET);
		assert_int_equal(asked(backs), 1);
		put(backs[1], ANSWER("200 OK"));
		expect(client, ANSWER("200 OK"));
	}
	/* One request when the time is over; one more error puts it out again, for longer. */
	time_passes(1000);
	for (who = 1; who == 1;) {
		put(client, GET);
		who = asked(backs);
		put(backs[who], who == 0 ? ANSWER("500 No") : ANSWER("200 OK"));
		expect(client, who == 0 ? ANSWER("500 No") : ANSWER("200 OK"));
	}
	assert_int_equal(metric("edgeway_lb_ejections_total "), ejections + 2);
	time_passes(1400); /* less than its client may be idle */
	put(client, GET);
	assert_int_equal(asked(backs), 1);
	put(backs[1], ANSWER("200 OK"));
	expect(client, ANSWER("200 OK"));
	time_passes(1400); /* less than its client may be idle */
	for (int n_good = 0; n_good < 3;) {
		put(client, GET);
		who = asked(backs);
		n_good += who == 0;
		put(backs[who], ANSWER("404 Well"));
		expect(client, ANSWER("404 Well"));
	}
	close(client);
	close(backs[0]);
	close(backs[1]);
	service_options(NULL);
}

/* Of a long answer no more is read than its client's socket has room for: what waits here for one
 * that reads slowly is little. */
static void
slow_readers_hold_little(void **state)
{
	enum { SLOW = 4, PIECE = 64 * 1024, MOST = 28 * 1024 };
	static const int little = 4096;
	static char piece[PIECE];
	int clients[SLOW], backs[SLOW];

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (int i = 0; i < SLOW; i++) {
		clients[i] = client_open();
		setsockopt(clients[i], SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
		put(clients[i], GET);
		backs[i] = endpoint_accept(0);
		head_at(backs[i]);
		put(backs[i], "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
	}
	for (int stalled = 0; stalled < 50;) {
		bool more = false;

		for (int i = 0; i < SLOW; i++) {
			more |= send(backs[i], piece, sizeof piece, MSG_DONTWAIT) > 0;
			if (stalled % 10 == 0)
				(void)!recv(clients[i], piece, sizeof piece, MSG_DONTWAIT);
		}
		stalled = more ? 0 : stalled + 1;
		if (metric("edgeway_lb_bytes_total{direction=\"client\"} ") > 64u << 20)
			break;
		time_passes(1);
	}
	assert_in_range(metric("edgeway_lb_memory_bytes{memory=\"own\"} "), 1, SLOW * MOST);
	for (int i = 0; i < SLOW; i++) {
		close(clients[i]);
		close(backs[i]);
	}
}

/* All of a text at once, while the proxy reads nothing. */
struct put_all {
	int fd;
	const char *text;
};

static void
put_all(void *arg)
{
	const struct put_all *p = arg;

	put(p->fd, p->text);
}

/* Chunks of a byte each cost a frame each, and a system call for a few of them: those that come
 * together go on together. */
static void
small_chunks_are_merged(void **state)
{
	enum { N = 9000, MERGED = 8192 };
	static char in[N * 6 + 1], body[N], out[N + 64];
	int client, upstream, n = 0;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (int i = 0; i < N; i++) {
		body[i] = (char)('a' + i % 26);
		n += snprintf(in + n, sizeof in - (size_t)n, "1\r\n%c\r\n", body[i]);
	}
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	put(upstream, "1\r\nx\r\n2\r\nyz\r\n");
	expect(client, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n");
	on_loop(put_all, &(struct put_all){upstream, in});
	snprintf(out, sizeof out, "2000\r\n%.*s\r\n%x\r\n%.*s\r\n", MERGED, body, N - MERGED,
		N - MERGED, body + MERGED);
	expect(client, out);
	put(upstream, "1\r\nx\r\n400\r\n");
	put_bytes(upstream, body, 1024);
	put(upstream, "\r\n1\r\ny\r\n0\r\nA: b\r\n\r\n");
	assert_non_null(strstr(read_until(client, "A: b\r\n\r\n"), "\r\n1\r\ny\r\n0\r\n"));
	close(client);
	close(upstream);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_with_bare_lf),
		cmocka_unit_test(offered_protocols),
		cmocka_unit_test(silent_endpoints),
		cmocka_unit_test(endpoints_that_read_nothing),
		cmocka_unit_test(asks_another_on_503),
		cmocka_unit_test(out_for_errors),
		cmocka_unit_test(small_chunks_are_merged),
		cmocka_unit_test(slow_readers_hold_little),
		cmocka_unit_test(via_for_who_wants_it),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
