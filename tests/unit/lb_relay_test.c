#include "tests/unit/lb_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* More than all socket buffers on the way can hold, so that somebody has to wait. */
enum { BIG = 48 * 1024 * 1024 };

static void
server_speaks_first(void **state)
{
	int client, back;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	back = endpoint_accept(0);
	put(back, "220 ready\r\n");
	expect(client, "220 ready\r\n");
	put(client, "QUIT\r\n");
	expect(back, "QUIT\r\n");
	close(back);
	expect_eof(client);
	close(client);
}

static void
half_close(void **state)
{
	int client, back;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "question");
	shut(client);
	back = endpoint_accept(0);
	expect(back, "question");
	expect_eof(back);
	put(back, "ans");
	expect(client, "ans");
	put(back, "wer");
	shut(back);
	expect(client, "wer");
	expect_eof(client);
	close(client);
	close(back);
}

static void
resets_are_carried_over(void **state)
{
	int client, back;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	back = endpoint_accept(0);
	close_hard(back);
	expect_reset(client);
	close(client);
	client = client_open();
	back = endpoint_accept(0);
	put(client, "x");
	expect(back, "x");
	close_hard(client);
	expect_reset(back);
	close(back);
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
		int back;

		client = client_open();
		while (!endpoint_called(0, 20) && !endpoint_called(1, 20))
			;
		back = endpoint_accept(endpoint_called(0, 0) ? 0 : 1);
		put(back, "hello");
		expect(client, "hello");
		close(client);
		close(back);
	}
	endpoint_listen(2);
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

		if (n < 0 && errno == EAGAIN)
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

/* While the receiver sleeps the sender must be stopped: what is in between is bounded, and nothing is lost. */
static void
transfer(int from, int to, const char *head_in, const char *head_out)
{
	struct sender s = {.fd = from, .first = head_in};
	pthread_t thread;
	size_t before;

	assert_int_equal(pthread_create(&thread, NULL, send_big, &s), 0);
	do {
		before = s.sent;
		usleep(200 * 1000);
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
	int client, back;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	back = endpoint_accept(0);
	transfer(back, client, "", "");
	transfer(client, back, "", "");
	close(client);
	close(back);
}

#define BIG_TEXT "50331648" /* BIG */

static void
slow_readers_of_bodies(void **state)
{
	int client, back;

	(void)state;
	_Static_assert(BIG == 50331648, "BIG_TEXT");
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	back = endpoint_accept(0);
	read_until(back, "\r\n\r\n");
	transfer(back, client, "HTTP/1.1 200 OK\r\nContent-Length: " BIG_TEXT "\r\n\r\n",
		"\r\n\r\n");
	transfer(client, back, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: " BIG_TEXT "\r\n\r\n",
		"\r\n\r\n");
	put(back, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
	expect(client, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
	close(client);
	close(back);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server_speaks_first),
		cmocka_unit_test(half_close),
		cmocka_unit_test(resets_are_carried_over),
		cmocka_unit_test(slow_readers_of_a_relay),
		cmocka_unit_test(slow_readers_of_bodies),
		cmocka_unit_test(no_endpoint_is_a_reset),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
