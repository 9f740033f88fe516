/* What a peer sends at once, and at the end of the turn (base/os/send_ring.h). */
#include "lb/conn/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
	struct loop *loop;
	struct send_ring *ring;
	struct peer peer;
	int other;
	int flushed; /* what peer_flush said last; 1: it was not called */
} t;

static void
on_ready(void *arg, int fd, unsigned events)
{
	(void)arg;
	(void)fd;
	if (events & WATCH_WRITE)
		t.flushed = peer_flush(&t.peer);
}

static int
start(void **state)
{
	struct err err;
	int fds[2];

	(void)state;
	memset(&t, 0, sizeof t);
	t.flushed = 1;
	assert_int_equal(loop_new(&t.loop, &err), 0);
	if (send_ring_new(&t.ring, &err) == 0)
		loop_at_turn_end(t.loop, send_ring_submit, t.ring);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	peer_open(&t.peer, t.loop, fds[0], false, on_ready, NULL);
	peer_pause(&t.peer);
	t.other = fds[1];
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	peer_close(&t.peer, false);
	close(t.other);
	send_ring_free(&t.ring);
	loop_free(&t.loop);
	return 0;
}

static void
needs_ring(void)
{
	if (t.ring == NULL)
		skip();
}

static int
send_later(const char *text)
{
	t.peer.later = t.ring;
	return peer_send_bytes(&t.peer, text, strlen(text));
}

static const char *
received(void)
{
	static char bytes[256];
	ssize_t n = recv(t.other, bytes, sizeof bytes - 1, MSG_DONTWAIT);

	bytes[n > 0 ? n : 0] = '\0';
	return bytes;
}

/* Returns how many bytes it took. */
static size_t
fill(void)
{
	static const char bytes[16] = {0};
	size_t sum = 0;
	ssize_t n;

	while ((n = send(t.peer.fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
		sum += (size_t)n;
	return sum;
}

static void
drain(size_t bytes)
{
	char to[4096];
	ssize_t n;

	while (bytes > 0) {
		n = recv(t.other, to, MIN(bytes, sizeof to), 0);
		assert_true(n > 0);
		bytes -= (size_t)n;
	}
}

static void
test_sent_at_turn_end(void **state)
{
	(void)state;
	needs_ring();
	assert_int_equal(send_later("one"), 0);
	assert_string_equal(received(), "");
	loop_turn(t.loop);
	assert_string_equal(received(), "one");
	assert_null(t.peer.in);
}

static void
test_order_is_kept(void **state)
{
	(void)state;
	needs_ring();
	send_later("one ");
	send_later("two ");
	peer_send_bytes(&t.peer, "three", 5);
	assert_string_equal(received(), "one two three");
	send_later("four ");
	t.peer.later = NULL;
	peer_send_bytes(&t.peer, "five", 4);
	assert_string_equal(received(), "four five");
}

static void
test_end_follows_what_waits(void **state)
{
	(void)state;
	needs_ring();
	send_later("last");
	assert_int_equal(peer_shut(&t.peer), 0);
	assert_int_equal(recv(t.other, &(char){0}, 1, 0), -1);
	loop_turn(t.loop);
	assert_string_equal(received(), "last");
	assert_int_equal(recv(t.other, &(char){0}, 1, 0), 0);
}

static void
test_end_follows_what_does_not_fit(void **state)
{
	size_t before = fill();

	(void)state;
	needs_ring();
	send_later("rest");
	assert_int_equal(peer_shut(&t.peer), 0);
	loop_turn(t.loop);
	assert_false(t.peer.shut);
	drain(before);
	for (int i = 0; i < 10 && t.flushed != 0; i++)
		loop_turn(t.loop);
	assert_string_equal(received(), "rest");
	assert_int_equal(recv(t.other, &(char){0}, 1, 0), 0);
}

/* The segment of the last bytes carries the FIN. */
static void
test_end_needs_no_segment(void **state)
{
	struct sockaddr_in here = {.sin_family = AF_INET};
	socklen_t len = sizeof here;
	struct tcp_info info = {0};
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client, before;

	(void)state;
	needs_ring();
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listening, (struct sockaddr *)&here, len), 0);
	assert_int_equal(listen(listening, 1), 0);
	assert_int_equal(getsockname(listening, (struct sockaddr *)&here, &len), 0);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&here, len), 0);
	peer_close(&t.peer, false);
	peer_open(&t.peer, t.loop, accept4(listening, NULL, NULL, SOCK_NONBLOCK), false, on_ready,
		NULL);
	peer_pause(&t.peer);
	close(listening);
	len = sizeof info;
	assert_int_equal(getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	before = (int)info.tcpi_segs_in;
	send_later("last");
	assert_int_equal(peer_shut(&t.peer), 0);
	loop_turn(t.loop);
	assert_int_equal(recv(client, (char[8]){0}, 8, 0), 4);
	assert_int_equal(recv(client, (char[8]){0}, 8, 0), 0);
	assert_int_equal(getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	assert_int_equal((int)info.tcpi_segs_in, before + 1);
	close(client);
}

static void
test_close_sends_what_waits(void **state)
{
	(void)state;
	needs_ring();
	send_later("last");
	peer_close(&t.peer, false);
	loop_turn(t.loop);
	assert_string_equal(received(), "last");
}

static void
test_flushed_when_asked(void **state)
{
	(void)state;
	needs_ring();
	send_later("now");
	assert_true(peer_is_flushed(&t.peer));
	assert_string_equal(received(), "now");
	fill();
	send_later("then");
	assert_false(peer_is_flushed(&t.peer));
}

static void
test_full_socket(void **state)
{
	size_t before = fill();

	(void)state;
	needs_ring();
	assert_int_equal(send_later("rest"), 0);
	assert_int_equal(buf_len(&t.peer.out), 0);
	loop_turn(t.loop);
	assert_int_equal(buf_len(&t.peer.out), 4);
	drain(before);
	for (int i = 0; i < 10 && t.flushed != 0; i++)
		loop_turn(t.loop);
	assert_int_equal(t.flushed, 0);
	assert_string_equal(received(), "rest");
}

static void
test_broken_connection_is_told(void **state)
{
	(void)state;
	needs_ring();
	shutdown(t.other, SHUT_RD);
	assert_int_equal(send_later("lost"), 0);
	for (int i = 0; i < 10 && t.flushed == 1; i++)
		loop_turn(t.loop);
	assert_int_equal(t.flushed, -EPIPE);
	assert_int_equal(send_later("lost"), -EPIPE);
}

static void
on_gone(void *owner, const char *rest, size_t len)
{
	(void)owner;
	(void)rest;
	assert_int_equal(len, 0);
}

static void
test_full_ring(void **state)
{
	(void)state;
	needs_ring();
	for (int i = 0; i < 64; i++) {
		assert_string_equal(received(), "");
		assert_true(send_ring_add(
			t.ring, t.peer.fd, &(struct iovec){(char[]){'x'}, 1}, 1, on_gone, NULL));
	}
	assert_int_equal(send_later("last"), 0);
	assert_int_equal(strlen(received()), 64);
	assert_non_null(t.peer.in);
}

static void
test_large_ones_do_not_wait(void **state)
{
	char bytes[8192] = {'x'};

	(void)state;
	needs_ring();
	t.peer.later = t.ring;
	assert_int_equal(peer_send_bytes(&t.peer, bytes, sizeof bytes), 0);
	assert_null(t.peer.in);
	assert_int_equal(received()[0], 'x');
}

/* Without a ring: what the socket does not take waits, and only what is broken is lost. */
static void
test_sent_at_once(void **state)
{
	size_t before = fill();

	(void)state;
	assert_int_equal(peer_send_bytes(&t.peer, "rest", 4), 0);
	assert_int_equal(buf_len(&t.peer.out), 4);
	assert_false(peer_is_flushed(&t.peer));
	drain(before);
	for (int i = 0; i < 10 && t.flushed != 0; i++)
		loop_turn(t.loop);
	assert_string_equal(received(), "rest");
	shutdown(t.other, SHUT_RD);
	assert_int_equal(peer_send_bytes(&t.peer, "lost", 4), -EPIPE);
	assert_true(t.peer.broken);
}

static void
test_quiet_or_not(void **state)
{
	(void)state;
	assert_true(peer_is_quiet(&t.peer));
	assert_false(peer_has_input(&t.peer));
	assert_int_equal(send(t.other, "x", 1, 0), 1);
	assert_false(peer_is_quiet(&t.peer));
	assert_true(peer_has_input(&t.peer));
	assert_int_equal(peer_read(&t.peer, (char[8]){0}, 8), 1);
	assert_true(peer_is_quiet(&t.peer));
	shutdown(t.other, SHUT_WR);
	assert_false(peer_is_quiet(&t.peer));
	assert_false(peer_has_input(&t.peer));
	assert_int_equal(peer_read(&t.peer, (char[8]){0}, 8), 0);
	assert_true(t.peer.eof);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sent_at_once, start, stop),
		cmocka_unit_test_setup_teardown(test_quiet_or_not, start, stop),
		cmocka_unit_test_setup_teardown(test_sent_at_turn_end, start, stop),
		cmocka_unit_test_setup_teardown(test_order_is_kept, start, stop),
		cmocka_unit_test_setup_teardown(test_end_follows_what_waits, start, stop),
		cmocka_unit_test_setup_teardown(test_end_follows_what_does_not_fit, start, stop),
		cmocka_unit_test_setup_teardown(test_end_needs_no_segment, start, stop),
		cmocka_unit_test_setup_teardown(test_close_sends_what_waits, start, stop),
		cmocka_unit_test_setup_teardown(test_flushed_when_asked, start, stop),
		cmocka_unit_test_setup_teardown(test_full_socket, start, stop),
		cmocka_unit_test_setup_teardown(test_broken_connection_is_told, start, stop),
		cmocka_unit_test_setup_teardown(test_full_ring, start, stop),
		cmocka_unit_test_setup_teardown(test_large_ones_do_not_wait, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
