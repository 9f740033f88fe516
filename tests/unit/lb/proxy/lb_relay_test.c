#include "tests/unit/lb/proxy/lb_fixture.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* More than all socket buffers on the way can hold, so that somebody has to wait. */
enum { BIG = 48 * 1024 * 1024 };

static void
server_speaks_first(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	upstream = endpoint_accept(0);
	put(upstream, "220 ready\r\n");
	expect(client, "220 ready\r\n");
	put(client, "QUIT\r\n");
	expect(upstream, "QUIT\r\n");
	close(upstream);
	expect_eof(client);
	close(client);
}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

/* A port that is called http, and an endpoint that greets: nobody waits for the other. */
static void
greeting_on_http_port(void **state)
{
	int first, second, third, upstream, others[2];

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	first = client_open();
	second = client_open();
	upstream = endpoint_accept(0);
	assert_false(endpoint_called(0, 150)); /* one is asked, and only for one of them */
	put(upstream, "220 ready\r\n");
	expect(first, "220 ready\r\n");
	put(first, "EHLO\r\n");
	expect(upstream, "EHLO\r\n");
	/* The one that has waited, and one that comes later. */
	others[0] = endpoint_accept(0);
	put(others[0], "220 two\r\n");
	expect(second, "220 two\r\n");
	third = client_open();
	others[1] = endpoint_accept(0);
	put(others[1], "220 three\r\n");
	expect(third, "220 three\r\n");
	shut(third);
	expect_eof(others[1]);
	close(upstream);
	expect_eof(first);
	close(first);
	close(second);
	close(third);
	close(others[0]);
	close(others[1]);
}

static void
silent_client_of_http(void **state)
{
	int client, other, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	upstream = endpoint_accept(0);
	expect_silence(upstream, 100);
	/* HTTP after all: over the connection that is there. */
	put(client, GET);
	read_until(upstream, "\r\n\r\n");
	assert_false(endpoint_called(0, 0));
	put(upstream, OK);
	expect(client, OK);
	/* An endpoint that has answered HTTP is not asked for another silent client. */
	other = client_open();
	assert_false(endpoint_called(0, 200));
	put(other, GET);
	read_until(upstream, "\r\n\r\n");
	put(upstream, OK);
	expect(other, OK);
	close(client);
	close(other);
	close(upstream);
}

/* What an HTTP server says to silence is no greeting, and its FIN is none either. */
static void
impatient_http_server(void **state)
{
	static const char *const says[] = {
		"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", ""};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(says); i++) {
		int client, upstream;

		service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
		client = client_open();
		upstream = endpoint_accept(0);
		put(upstream, says[i]);
		close(upstream);
		expect_silence(client, 200);
		put(client, GET);
		upstream = endpoint_accept(0);
		read_until(upstream, "\r\n\r\n");
		put(upstream, OK);
		expect(client, OK);
		close(client);
		close(upstream);
	}
	/* Nobody to ask: the client may still speak. */
	endpoint_down(0);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	{
		int client = client_open();

		expect_silence(client, 200);
		put(client, GET);
		assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 502 "));
		close(client);
	}
	endpoint_listen(0);
}

/* edgeway.io/idle-timeout */
static void
idle_relay_ends(void **state)
{
	const struct service_lb quick = {.idle_ms = 400, .retries = RETRIES_DEFAULT};
	int client, upstream;

	(void)state;
	service_options(&quick);
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	upstream = endpoint_accept(0);
	for (int i = 0; i < 4; i++) { /* longer than the timeout in all */
		expect_silence(upstream, 200);
		put(client, "x");
		expect(upstream, "x");
	}
	expect_eof(client);
	expect_reset(upstream);
	close(client);
	close(upstream);
	service_options(NULL);
}

static void
half_close(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "question");
	shut(client);
	upstream = endpoint_accept(0);
	expect(upstream, "question");
	expect_eof(upstream);
	put(upstream, "ans");
	expect(client, "ans");
	put(upstream, "wer");
	shut(upstream);
	expect(client, "wer");
	expect_eof(client);
	close(client);
	close(upstream);
}

/* With a ring the segment of the last bytes carries the FIN, unless an acknowledgement came
 * between. */
static void
ends_need_no_segment(void **state)
{
	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	for (int from = 0; from < 2; from++) {
		unsigned least = UINT_MAX;

		for (int i = 0; i < 10; i++) {
			int fds[2] = {client_open()}, to = !from;
			unsigned before;

			fds[1] = endpoint_accept(0);
			put(fds[from], "first");
			expect(fds[to], "first");
			before = segments_in(fds[to]);
			assert_int_equal(send(fds[from], "last", 4, MSG_MORE), 4);
			shut(fds[from]);
			expect(fds[to], "last");
			expect_eof(fds[to]);
			least = MIN(least, segments_in(fds[to]) - before);
			close(fds[0]);
			close(fds[1]);
		}
		if (getenv("EDGEWAY_RING") != NULL)
			assert_int_equal(least, 1);
	}
}

static void
resets_are_carried_over(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	upstream = endpoint_accept(0);
	close_hard(upstream);
	expect_reset(client);
	close(client);
	client = client_open();
	upstream = endpoint_accept(0);
	put(client, "x");
	expect(upstream, "x");
	close_hard(client);
	expect_reset(upstream);
	close(upstream);
}

static void
no_endpoint_is_a_reset(void **state)
{
	int client;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 0);
	client = client_open();
	expect_reset(client);
	close(client);
	endpoint_down(2);
	service_use(PORT_TCP, LB_ROUND_ROBIN, 3);
	for (int i = 0; i < 3; i++) { /* the one that is down is passed over */
		int upstream;

		client = client_open();
		while (!endpoint_called(0, 20) && !endpoint_called(1, 20))
			;
		upstream = endpoint_accept(endpoint_called(0, 0) ? 0 : 1);
		put(upstream, "hello");
		expect(client, "hello");
		close(client);
		close(upstream);
	}
	endpoint_listen(2);
}

/* Fills what takes bytes until nobody takes any more. */
static void
stuff(int fd)
{
	static char block[64 * 1024];
	struct timeval patience = {.tv_usec = 300 * 1000};

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	while (send(fd, block, sizeof block, MSG_NOSIGNAL) > 0)
		;
}

/* A side that is not read from, because the other does not take what it sends, goes away: so does
 * the other. */
static void
resets_of_paused_sides(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	upstream = endpoint_accept(0);
	stuff(client);
	close_hard(client);
	while (recv(upstream, (char[65536]){0}, 65536, 0) > 0)
		;
	assert_int_equal(errno, ECONNRESET);
	close(upstream);
	client = client_open();
	upstream = endpoint_accept(0);
	stuff(upstream);
	close_hard(upstream);
	while (recv(client, (char[65536]){0}, 65536, 0) > 0)
		;
	assert_int_equal(errno, ECONNRESET);
	close(client);
	/* The same for a client that has half-closed, and one in the middle of an upload. */
	client = client_open();
	upstream = endpoint_accept(0);
	shut(client);
	expect_eof(upstream);
	close_hard(client);
	assert_int_equal(poll(&(struct pollfd){.fd = upstream}, 1, WAIT_MS), 1); /* POLLERR */
	close(upstream);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
	upstream = endpoint_accept(0);
	stuff(client);
	close_hard(client);
	while (recv(upstream, (char[65536]){0}, 65536, 0) > 0)
		;
	assert_int_equal(errno, ECONNRESET);
	close(upstream);
}

struct sender {
	int fd;
	const char *first; /* sent in front of BIG bytes */
	_Atomic size_t sent;
};

static char
pattern(size_t at)
{
	return (char)('a' + at % 23);
}

static void *
send_big(void *arg)
{
	static char block[23 * 4096];
	struct sender *s = arg;

	for (size_t i = 0; i < sizeof block; i++)
		block[i] = pattern(i);
	if (s->first[0] != '\0')
		send(s->fd, s->first, strlen(s->first), MSG_NOSIGNAL);
	while (s->sent < BIG) {
		size_t at = s->sent % sizeof block;
		ssize_t n = send(
			s->fd, block + at, MIN(sizeof block - at, BIG - s->sent), MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			break;
		s->sent += (size_t)n;
	}
	return NULL;
}

static void
receive_big(int fd)
{
	static char got[256 * 1024];
	size_t at = 0;

	while (at < BIG) {
		ssize_t n = recv(fd, got, MIN(sizeof got, BIG - at), 0);

		if (n <= 0)
			fail_msg("%zu bytes, then %s", at, n == 0 ? "EOF" : strerror(errno));
		for (ssize_t i = 0; i < n; i++) {
			if (got[i] != pattern(at + (size_t)i))
				fail_msg("wrong byte at %zu", at + (size_t)i);
		}
		at += (size_t)n;
	}
}

/* While the receiver sleeps the sender must be stopped: what is in between is bounded, and nothing
 * is lost. */
static void
transfer(int from, int to, const char *head_in, const char *head_out)
{
	struct sender s = {.fd = from, .first = head_in};
	static const struct timespec moment = {.tv_nsec = 200 * 1000 * 1000};
	pthread_t thread;
	size_t before;

	assert_int_equal(pthread_create(&thread, NULL, send_big, &s), 0);
	do {
		before = s.sent;
		nanosleep(&moment, NULL);
	} while (s.sent != before);
	if (before >= BIG - 1024 * 1024)
		fail_msg("the sender was not stopped: %zu bytes sent", before);
	if (head_out[0] != '\0')
		read_until(to, head_out);
	receive_big(to);
	pthread_join(thread, NULL);
}

static void
slow_readers_of_a_relay(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	upstream = endpoint_accept(0);
	transfer(upstream, client, "", "");
	transfer(client, upstream, "", "");
	close(client);
	close(upstream);
}

static char bulk[256 * 1024];

static void
send_and_hang_up(void *fds)
{
	put_bytes(((int *)fds)[0], bulk, sizeof bulk);
	close_hard(((int *)fds)[1]);
}

/* Bulk for a client that is gone, seen first by the splice: the next one starts with an empty
 * pipe. */
static void
bulk_for_nobody(void **state)
{
	int fds[2];

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	for (int i = 0; i < 10; i++) {
		fds[1] = client_open();
		fds[0] = endpoint_accept(0);
		put_bytes(fds[0], bulk, sizeof bulk);
		for (size_t n = 0; n < sizeof bulk;) {
			ssize_t k = recv(fds[1], (char[65536]){0}, 65536, 0);

			assert_true(k > 0);
			n += (size_t)k;
		}
		on_loop(send_and_hang_up, fds);
		close(fds[0]);
	}
	fds[1] = client_open();
	fds[0] = endpoint_accept(0);
	transfer(fds[0], fds[1], "", "");
	close(fds[0]);
	close(fds[1]);
}

#define BIG_TEXT "50331648" /* BIG */

static void
slow_readers_of_bodies(void **state)
{
	int client, upstream;

	(void)state;
	_Static_assert(BIG == 50331648, "BIG_TEXT");
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	upstream = endpoint_accept(0);
	read_until(upstream, "\r\n\r\n");
	transfer(upstream, client, "HTTP/1.1 200 OK\r\nContent-Length: " BIG_TEXT "\r\n\r\n",
		"\r\n\r\n");
	transfer(client, upstream,
		"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: " BIG_TEXT "\r\n\r\n", "\r\n\r\n");
	put(upstream, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
	expect(client, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
	close(client);
	close(upstream);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server_speaks_first),
		cmocka_unit_test(greeting_on_http_port),
		cmocka_unit_test(silent_client_of_http),
		cmocka_unit_test(impatient_http_server),
		cmocka_unit_test(idle_relay_ends),
		cmocka_unit_test(half_close),
		cmocka_unit_test(ends_need_no_segment),
		cmocka_unit_test(resets_are_carried_over),
		cmocka_unit_test(resets_of_paused_sides),
		cmocka_unit_test(slow_readers_of_a_relay),
		cmocka_unit_test(slow_readers_of_bodies),
		cmocka_unit_test(bulk_for_nobody),
		cmocka_unit_test(no_endpoint_is_a_reset),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
