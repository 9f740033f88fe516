/* The budget of memory: lb/proxy/memory.h. One client pushes, another one must not feel it. */
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
#define OWN "edgeway_lb_memory_bytes{memory=\"own\"} "
#define SOCKETS "edgeway_lb_memory_bytes{memory=\"sockets\"} "
#define EVICTED "edgeway_lb_evictions_total{memory=\"own\"} "
#define EVICTED_SOCKETS "edgeway_lb_evictions_total{memory=\"sockets\"} "

enum {
	GREEDY = 0x7f000002,
	OTHER = 0x7f000003,
	MANY = 60,
	OWN_LIMIT = 512 * 1024,
	SOCKETS_LIMIT = 4 * 1024 * 1024,
	ANSWER = 64 * 1024,
	PIPELINED = 400,
	CALLS = 10,
	FRAME = 16 * 1024,
};

static struct {
	int clients[MANY], backs[MANY], other, other_upstream;
	char bytes[ANSWER];
} bed;

static int
bed_start(void **state)
{
	fixture_budget(OWN_LIMIT, SOCKETS_LIMIT);
	memset(bed.bytes, 'a', sizeof bed.bytes);
	return fixture_start(state);
}

/* What nobody holds any more is not counted any more. */
static void
nothing_is_left(void)
{
	for (int i = 0; i < WAIT_MS && metric("edgeway_lb_connections_active ") > 0; i++)
		time_passes(1);
	assert_int_equal(metric(OWN), 0);
	assert_int_equal(metric(SOCKETS), 0);
}

static bool
is_reset(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == ECONNRESET;
}

/* To be asked once: the error is told once. */
static int
count_reset(bool *oldest, bool *youngest)
{
	int n = 0;

	for (int i = 0; i < MANY; i++) {
		bool gone = is_reset(bed.clients[i]);

		n += gone;
		if (i == 0)
			*oldest = gone;
		*youngest = gone;
	}
	return n;
}

/* A request of another client is in progress all the while, and holds nothing. */
static void
other_begins(void)
{
	bed.other = client_open_as(OTHER);
	put(bed.other, GET);
	bed.other_upstream = endpoint_accept(0);
	read_until(bed.other_upstream, "\r\n\r\n");
}

static void
other_is_served(void)
{
	put(bed.other_upstream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	expect(bed.other, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	close(bed.other);
	close(bed.other_upstream);
}

/* The clients first: an endpoint that hangs up before would be taken for a broken one, and probed
 * in the next test. */
static void
close_all(void)
{
	for (int i = 0; i < MANY; i++)
		close_hard(
			bed.clients
				[i]); /* whoever is not read from is not seen to have half-closed */
	nothing_is_left();
	for (int i = 0; i < MANY; i++) {
		if (bed.backs[i] >= 0)
			close(bed.backs[i]);
	}
}

/* The next request waits for the client to read the answers before it. */
static void
pipelining_without_reading(void **state)
{
	int client, upstream, answered = 0;
	struct pollfd p = {.events = POLLIN};

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open_as(GREEDY);
	for (int i = 0; i < PIPELINED; i++)
		put(client, GET);
	p.fd = upstream = endpoint_accept(0);
	while (poll(&p, 1, 0) == 1 || (time_passes(200), poll(&p, 1, 0) == 1)) {
		read_until(upstream, "\r\n\r\n");
		put(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n");
		put_bytes(upstream, bed.bytes, sizeof bed.bytes);
		answered++;
	}
	assert_in_range(answered, 1, PIPELINED - 1);
	assert_in_range(metric(OWN), 1, 200 * 1024);
	for (int i = 0; i < PIPELINED; i++) {
		if (i >= answered) {
			read_until(upstream, "\r\n\r\n");
			put(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
		}
		if (i == answered)
			shut(client);
		read_until(client, "\r\n\r\n");
		for (size_t got = 0; i < answered && got < sizeof bed.bytes;) {
			ssize_t n = recv(client, bed.bytes, sizeof bed.bytes - got, 0);

			assert_true(n > 0);
			got += (size_t)n;
		}
	}
	expect_eof(client);
	close(client);
	close(upstream);
	nothing_is_left();
}

/* Requests that wait behind one without an answer: each connection holds what it may, and all of
 * them too much. */
static void
the_greediest_loses_what_stands_still(void **state)
{
	uint64_t before = metric(EVICTED);
	bool oldest, youngest;
	int gone;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	other_begins();
	for (int i = 0; i < MANY; i++) {
		bed.clients[i] = client_open_as(GREEDY);
		put(bed.clients[i], GET);
		bed.backs[i] = endpoint_accept(0);
		read_until(bed.backs[i], "\r\n\r\n");
		put_bytes(bed.clients[i], bed.bytes, 16 * 1024);
	}
	time_passes(20);
	assert_in_range(metric(OWN), OWN_LIMIT / 2 + 1, OWN_LIMIT);
	assert_int_equal(metric(EVICTED), before); /* they may be getting on */
	time_passes(1200);
	assert_in_range(metric(OWN), OWN_LIMIT / 4, OWN_LIMIT / 2 + 8192);
	gone = (int)(metric(EVICTED) - before);
	assert_in_range(gone, 1, MANY / 2);
	assert_int_equal(count_reset(&oldest, &youngest), gone);
	assert_true(oldest);
	assert_false(youngest);
	other_is_served();
	close_all();
}

/* Faster than a second: at the limit itself whatever the greediest has may go. */
static void
never_over_the_limit(void **state)
{
	uint64_t before = metric(EVICTED);

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	other_begins();
	for (int i = 0; i < MANY; i++) {
		bed.clients[i] = client_open_as(GREEDY);
		bed.backs[i] = -1;
		put(bed.clients[i], "GET / HTTP/1.1\r\nX: ");
		put_bytes(bed.clients[i], bed.bytes, 15 * 1000);
		time_passes(1);
		assert_in_range(metric(OWN), 1, OWN_LIMIT + 64 * 1024);
	}
	assert_true(metric(EVICTED) > before);
	other_is_served();
	close_all();
}

/* Answers that nobody reads, in the kernel's buffers alone. */
static void
sockets_count(void **state)
{
	uint64_t before = metric(EVICTED_SOCKETS);

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	other_begins();
	for (int i = 0; i < MANY; i++) {
		int small = 1;

		bed.clients[i] = client_open_as(GREEDY);
		setsockopt(bed.clients[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
		put(bed.clients[i], GET);
		bed.backs[i] = endpoint_accept(0);
		read_until(bed.backs[i], "\r\n\r\n");
		put(bed.backs[i], "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
		for (int n = 0; n < 4; n++)
			put_bytes(bed.backs[i], bed.bytes, sizeof bed.bytes);
	}
	time_passes(3200);
	assert_true(metric(EVICTED_SOCKETS) > before);
	assert_in_range(metric(SOCKETS), 1, SOCKETS_LIMIT / 2 + 256 * 1024);
	other_is_served();
	close_all();
}

static void
put_frame(int fd, uint8_t type, uint8_t flags, uint8_t stream, const void *data, uint32_t len)
{
	const uint8_t head[] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type,
		flags, 0, 0, 0, stream};

	put_bytes(fd, head, sizeof head);
	put_bytes(fd, data, len);
}

/* An HTTP/2 session with an endpoint that reads nothing: its socket is its clients'. */
static void
sockets_of_sessions_count(void **state)
{
	static const char post[] = "\x83\x86\x84\x41\x03web", wide[] = "\0\4\x7f\xff\xff\xff",
			  window[] = "\x7f\xff\0\0";
	int small = 1;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	setsockopt(endpoint_listen(0), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	for (uint32_t i = 0; i < CALLS; i++) {
		bed.clients[i] = client_open_as(GREEDY + i);
		put(bed.clients[i], "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
		put_frame(bed.clients[i], 4, 0, 0, "", 0);
		put_frame(bed.clients[i], 1, 4, 1, post, sizeof post - 1);
		put_frame(bed.clients[i], 0, 0, 1, bed.bytes, FRAME);
		if (i > 0)
			continue;
		bed.backs[0] = endpoint_accept(0);
		put_frame(bed.backs[0], 4, 0, 0, wide, sizeof wide - 1);
		put_frame(bed.backs[0], 8, 0, 0, window, sizeof window - 1);
	}
	for (int i = 0; i < WAIT_MS && metric(SOCKETS) < CALLS * FRAME / 2; i++)
		time_passes(1);
	assert_in_range(metric(SOCKETS), CALLS * FRAME / 2, SOCKETS_LIMIT / 2);
	for (int i = 0; i < CALLS; i++)
		close_hard(bed.clients[i]);
	nothing_is_left();
	close(bed.backs[0]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pipelining_without_reading),
		cmocka_unit_test(the_greediest_loses_what_stands_still),
		cmocka_unit_test(never_over_the_limit),
		cmocka_unit_test(sockets_count),
		cmocka_unit_test(sockets_of_sessions_count),
	};

	return cmocka_run_group_tests(tests, bed_start, fixture_stop);
}
