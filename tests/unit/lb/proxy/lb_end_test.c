#include "tests/unit/lb/proxy/lb_fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Ends of connections that come at an unlucky moment. */

#define GET "GET / HTTP/1.1\r\nHost: web\r\n\r\n"
#define UPGRADE "Connection: upgrade\r\nUpgrade: x\r\n"

static void
expect_gone(int fd)
{
	char to[4096];
	ssize_t n;

	assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, WAIT_MS), 1);
	while ((n = recv(fd, to, sizeof to, 0)) > 0)
		continue;
	assert_true(n == 0 || errno == ECONNRESET);
	close(fd);
}

static void
nobody_is_left(void)
{
	for (int i = 0; i < WAIT_MS && metric("edgeway_lb_connections_active ") > 0; i++)
		time_passes(1);
	assert_int_equal(metric("edgeway_lb_connections_active "), 0);
}

/* A client that sends its FIN and is reset afterwards waits for nothing more: its request ends, and
 * the loop is not told of it over and over. */
static void
reset_after_a_half_close(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	shut(client);
	time_passes(5);
	close_hard(client);
	expect_gone(upstream);
	nobody_is_left();
}

/* The proxy's end of a client's connection. */
static int
accepted(int client)
{
	struct sockaddr_in ours, theirs;
	socklen_t len = sizeof ours;

	assert_int_equal(getsockname(client, (struct sockaddr *)&ours, &len), 0);
	for (int fd = 3; fd < 1024; fd++) {
		len = sizeof theirs;
		if (getpeername(fd, (struct sockaddr *)&theirs, &len) == 0 && len == sizeof ours &&
			theirs.sin_port == ours.sin_port &&
			theirs.sin_addr.s_addr == ours.sin_addr.s_addr)
			return fd;
	}
	fail();
	return -1;
}

/* The client sends its FIN while the last bytes of a response wait for room in its socket. */
static void
half_close_at_the_end_of_a_response(void **state)
{
	enum { LEAST = 2048, STEP = 1024, MOST = 48 * 1024 };
	static const int little = 2048;
	static char body[MOST], got[MOST + 4096];

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (size_t n = LEAST; n <= MOST; n += STEP) {
		int client = client_open(), upstream;
		ssize_t more = 0;
		size_t have = 0;
		char head[64];

		setsockopt(client, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
		put(client, GET);
		upstream = endpoint_accept(0);
		head_at(upstream);
		setsockopt(accepted(client), SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
		snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", n);
		put(upstream, head);
		put_bytes(upstream, body, n);
		time_passes(3);
		shut(client);
		time_passes(3);
		while ((more = recv(client, got + have, sizeof got - have, 0)) > 0)
			have += (size_t)more;
		assert_int_equal(more, 0);
		assert_int_equal(have, strlen(head) + n);
		close(client);
		close(upstream);
	}
}

struct last_words {
	int fd;
	const char *text;
};

/* On the loop's thread, so that it sees both at once. */
static void
say_and_reset(void *arg)
{
	const struct last_words *l = arg;

	put(l->fd, l->text);
	close_hard(l->fd);
}

/* The bytes make a relay of the exchange, and the same event tells of the reset. */
static void
reset_behind_what_makes_a_relay(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "GET / HTTP/1.1\r\nHost: web\r\n" UPGRADE "\r\n");
	upstream = endpoint_accept(0);
	head_at(upstream);
	on_loop(say_and_reset,
		&(struct last_words){
			upstream, "HTTP/1.1 101 Switching Protocols\r\n" UPGRADE "\r\n"});
	expect_gone(client);

	client = client_open();
	time_passes(1);
	on_loop(say_and_reset, &(struct last_words){client, "\x16\x03\x01"});
	nobody_is_left();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reset_after_a_half_close),
		cmocka_unit_test(half_close_at_the_end_of_a_response),
		cmocka_unit_test(reset_behind_what_makes_a_relay),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
