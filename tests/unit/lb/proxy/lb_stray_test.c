/* Bytes on a kept connection that answer no request: whatever the loop is doing when they come, no
 * request that is sent later gets them as its answer. */
#include "tests/unit/lb/proxy/lb_fixture.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define GET "GET /x HTTP/1.1\r\nHost: web\r\n\r\n"
#define OK(body) "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" body

enum {
	PAIRS = 2,
	LARGE = 5000, /* more than the ring takes */
	READ_BYTES = 65536, /* at a time */
	WINDOW = 4 << 20,
};

struct stray {
	int clients[PAIRS], upstreams[PAIRS];
	const char *request;
	int wake[2]; /* a pair of sockets whose watch is told of before those of the clients */
	struct watch *watch;
};

static const char *
large_request(void)
{
	static char text[LARGE + 64];

	snprintf(text, sizeof text, "GET /x HTTP/1.1\r\nHost: web\r\nX: %0*d\r\n\r\n", LARGE, 1);
	return text;
}

static void
keep_two(struct stray *s)
{
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (int i = 0; i < PAIRS; i++) {
		s->clients[i] = client_open();
		put(s->clients[i], GET);
		s->upstreams[i] = endpoint_accept(0);
		head_at(s->upstreams[i]);
	}
	for (int i = 0; i < PAIRS; i++) {
		put(s->upstreams[i], OK("1"));
		expect(s->clients[i], OK("1"));
	}
}

static void
stray_answers(const struct stray *s)
{
	for (int i = PAIRS - 1; i >= 0; i--)
		put(s->upstreams[i], OK("X"));
}

/* Each gets the answer of a new connection. */
static void
expect_own_answers(const struct stray *s)
{
	for (int i = 0; i < PAIRS; i++) {
		int upstream = endpoint_accept(0);

		head_at(upstream);
		put(upstream, OK("2"));
		close(upstream);
	}
	for (int i = 0; i < PAIRS; i++) {
		expect(s->clients[i], OK("2"));
		close(s->clients[i]);
		close(s->upstreams[i]);
	}
}

static void
ask_first(void *arg)
{
	const struct stray *s = arg;

	for (int i = 0; i < PAIRS; i++)
		put(s->clients[i], s->request);
	stray_answers(s);
}

/* The loop is told of requests and stray answers together, of the requests first. What is done
 * about the first stray one sends what waits in the ring. */
static void
told_behind_the_request(void **state)
{
	const char *const requests[] = {GET, large_request()};
	struct stray s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		keep_two(&s);
		s.request = requests[i];
		on_loop(ask_first, &s);
		expect_own_answers(&s);
	}
}

static void
on_woken(void *arg, int fd, unsigned events)
{
	const struct stray *s = arg;
	char byte;

	(void)events;
	if (read(fd, &byte, 1) == 1)
		stray_answers(s);
}

static void
watch_here(void *arg)
{
	struct stray *s = arg;

	s->watch = watch_start(the_loop(), s->wake[0], WATCH_READ, on_woken, s);
}

static void
watch_no_more(void *arg)
{
	struct stray *s = arg;

	watch_stop(&s->watch);
}

static void
wake_and_ask(void *arg)
{
	const struct stray *s = arg;

	put(s->wake[1], "x");
	for (int i = 0; i < PAIRS; i++)
		put(s->clients[i], s->request);
}

/* They come after the loop has looked for events, and before it gets to the requests. */
static void
not_told_yet(void **state)
{
	const char *const requests[] = {large_request(), GET};
	/* A request that waits in the ring is not worth a system call. */
	size_t n = getenv("EDGEWAY_RING") != NULL ? 1 : ARRAY_LEN(requests);
	struct stray s;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s.wake), 0);
	on_loop(watch_here, &s);
	for (size_t i = 0; i < n; i++) {
		keep_two(&s);
		s.request = requests[i];
		on_loop(wake_and_ask, &s);
		expect_own_answers(&s);
	}
	on_loop(watch_no_more, &s);
	close(s.wake[0]);
	close(s.wake[1]);
}

/* Sends an answer of so many bytes, head included, and `more`. */
static void
put_large(int fd, size_t n, const char *more)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n";
	auto_free char *text = xmalloc(n + 64);
	/* n and what is left of it have as many digits */
	size_t head_len = (size_t)snprintf(text, 64, head, n);

	snprintf(text, 64, head, n - head_len);
	memset(text + head_len, 'a', n - head_len);
	snprintf(text + n, 64, "%s", more);
	put_bytes(fd, text, strlen(text));
}

static void
put_too_many(void *arg)
{
	put_large(*(int *)arg, READ_BYTES, OK("X"));
}

static void
expect_large(int fd, size_t n)
{
	char to[4096];

	while (n > 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t got;

		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		got = recv(fd, to, MIN(n, sizeof to), 0);
		assert_true(got > 0);
		n -= (size_t)got;
	}
}

/* An answer that fills what is read at a time, and another one behind it, while the next request
 * waits. */
static void
behind_what_is_read(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put_large(upstream, WINDOW, ""); /* so that more fits into the socket's buffer */
	expect_large(client, WINDOW);
	put(client, GET GET);
	head_at(upstream);
	on_loop(put_too_many, &upstream);
	expect_large(client, READ_BYTES);
	close(upstream);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("2"));
	expect(client, OK("2"));
	close(client);
	close(upstream);
}

/* A server that announces the body of a 204, which has none, may send it as well. */
static void
behind_a_204(void **state)
{
	static const char *const announced[] = {
		"Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"};

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (size_t i = 0; i < ARRAY_LEN(announced); i++) {
		int client = client_open(), upstream, next;

		put(client, GET);
		upstream = endpoint_accept(0);
		head_at(upstream);
		put(upstream, "HTTP/1.1 204 No Content\r\n");
		put(upstream, announced[i]);
		put(upstream, "\r\n");
		expect(client, "HTTP/1.1 204 No Content\r\n\r\n");
		put(client, GET);
		next = endpoint_accept(0);
		head_at(next);
		put(next, OK("2"));
		expect(client, OK("2"));
		close(client);
		close(upstream);
		close(next);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(told_behind_the_request),
		cmocka_unit_test(not_told_yet),
		cmocka_unit_test(behind_what_is_read),
		cmocka_unit_test(behind_a_204),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
