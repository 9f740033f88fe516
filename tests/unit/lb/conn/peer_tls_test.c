/* A peer that speaks TLS, to a server of our own: pieces of any size in order, what was read ahead
 * announced without an event of the socket, and an end that is one told from a cut. Found by
 * tests/mutation. */
#include "lb/conn/peer.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/tls/tls_stream.h"
#include "tests/unit/base/tls/tls_keys.h"
#include "tests/unit/patience.h"

enum { MOST = 1 << 20 };

static struct {
	struct loop *loop;
	struct tls_keys keys;
	struct ssl_ctx_st *server_ctx, *client_ctx;
	struct tls_stream *server;
	int server_fd;
	bool server_open, server_failed;
	size_t heard; /* by the server */
	uint8_t last; /* byte */
	bool in_order;
	ssize_t server_end; /* what its last read said; 1: there may be more */
	struct peer peer;
	size_t piece; /* that the peer reads at a time; 0: it reads nothing */
	size_t read;
	ssize_t end;
	unsigned announced;
	int shaken;
} t;

/* Every byte is one more than the one before it. */
static void
check_order(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		t.in_order &= bytes[i] == (uint8_t)(t.last + 1 + i);
	t.last = (uint8_t)(t.last + n);
}

static void
on_server(void *arg, enum tls_event event)
{
	uint8_t bytes[4096];

	(void)arg;
	t.server_open |= event == TLS_OPEN;
	t.server_failed |= event == TLS_FAILED;
	if (!t.server_open)
		return;
	while ((t.server_end = tls_stream_read(t.server, bytes, sizeof bytes)) > 0) {
		check_order(bytes, (size_t)t.server_end);
		t.heard += (size_t)t.server_end;
	}
}

static void
on_peer(void *arg, int fd, unsigned events)
{
	static char bytes[MOST];

	(void)arg, (void)fd;
	if (t.shaken == -EAGAIN) {
		t.shaken = peer_shake(&t.peer);
		if (t.shaken == 0)
			peer_connected(&t.peer);
		return;
	}
	if (events & WATCH_WRITE)
		assert_int_equal(peer_flush(&t.peer), 0);
	if (!(events & WATCH_READ))
		return;
	t.announced++;
	if (t.piece == 0)
		return;
	t.end = peer_read(&t.peer, bytes, t.piece);
	if (t.end > 0) {
		check_order((const uint8_t *)bytes, (size_t)t.end);
		t.read += (size_t)t.end;
	}
}

static int
start_as(const char *host)
{
	const struct tls_setup client = {.ctx = t.client_ctx, .host = host};
	struct tls_setup server = {
		.loop = t.loop, .ctx = t.server_ctx, .proof = TLS_ANYBODY, .on = on_server};
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
	server.fd = t.server_fd = fd[0];
	assert_int_equal(tls_stream_new(&server, &t.server, NULL), 0);
	peer_open(&t.peer, t.loop, fd[1], false, on_peer, NULL);
	assert_int_equal(peer_start_tls(&t.peer, &client, t.loop, on_peer, NULL), 0);
	t.shaken = peer_shake(&t.peer);
	patience_until(patience_turn(t.loop), t.shaken != -EAGAIN);
	return t.shaken;
}

static int
start(void **state)
{
	(void)state;
	memset(&t, 0, sizeof t);
	t.in_order = true;
	t.server_end = t.end = 1;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(loop_new(&t.loop, NULL), 0);
	tls_keys_make(&t.keys);
	assert_int_equal(
		pki_server_ctx(t.keys.hub, t.keys.hub_key, t.keys.ca, &t.server_ctx, NULL), 0);
	assert_int_equal(pki_backend_ctx(t.keys.ca, &t.client_ctx, NULL), 0);
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	peer_close(&t.peer, false);
	peer_close(&t.peer, false);
	tls_stream_free(&t.server);
	pki_ctx_free(&t.server_ctx);
	pki_ctx_free(&t.client_ctx);
	tls_keys_free(&t.keys);
	loop_free(&t.loop);
	return 0;
}

static void
open_both(void)
{
	assert_int_equal(start_as("hub.example"), 0);
	patience_until(patience_turn(t.loop), t.server_open);
}

static uint8_t *
count_up(size_t n)
{
	uint8_t *bytes = xmalloc(n);

	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(i + 1);
	return bytes;
}

static void
test_pieces_in_order(void **state)
{
	static const size_t sizes[][3] = {{5, 0, 7}, {0, 0, 9}, {16000, 384, 0}, {16000, 385, 0},
		{40000, 0, 1}, {3, 300000, 200000}};
	struct iovec iov[3];

	(void)state;
	open_both();
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		size_t total = sizes[i][0] + sizes[i][1] + sizes[i][2], at = 0;
		auto_free uint8_t *bytes = count_up(total);

		t.heard = t.last = 0;
		for (int k = 0; k < 3; k++) {
			iov[k] = (struct iovec){bytes + at, sizes[i][k]};
			at += sizes[i][k];
		}
		assert_int_equal(peer_send(&t.peer, iov, 3), 0);
		patience_until(patience_turn(t.loop), t.heard >= total);
		assert_int_equal(t.heard, total);
		assert_true(t.in_order);
		assert_true(peer_is_flushed(&t.peer));
	}
}

/* The end follows what is pending, as the notice that it is one. */
static void
test_the_end_is_told(void **state)
{
	auto_free uint8_t *bytes = count_up(MOST);

	(void)state;
	open_both();
	assert_int_equal(peer_send_bytes(&t.peer, bytes, MOST), 0);
	assert_false(peer_is_flushed(&t.peer));
	assert_int_equal(peer_shut(&t.peer), 0);
	patience_until(patience_turn(t.loop), t.server_end == 0);
	assert_int_equal(t.heard, MOST);
	assert_true(t.in_order && t.peer.shut);
}

static void
server_says(size_t n)
{
	auto_free uint8_t *bytes = count_up(n);
	size_t at = 0;

	while (at < n) {
		ssize_t rc = tls_stream_write(t.server, bytes + at, n - at);

		assert_true(rc > 0 || rc == -EAGAIN);
		at += (size_t)MAX(rc, 0);
		if (rc < 0)
			patience_turn(t.loop);
	}
}

/* All of it is announced, however little is read at a time, and nothing while it is paused. */
static void
test_what_was_read_ahead(void **state)
{
	enum { SAID = 40000 };
	unsigned before;

	(void)state;
	open_both();
	t.piece = 1000;
	server_says(SAID);
	patience_until(patience_turn(t.loop), t.read > 0);
	peer_pause(&t.peer);
	before = t.announced;
	for (int i = 0; i < 20; i++)
		patience_turn(t.loop);
	assert_int_equal(t.announced, before);
	peer_resume(&t.peer);
	patience_until(patience_turn(t.loop), t.read >= SAID);
	assert_int_equal(t.read, SAID);
	assert_true(t.in_order && !t.peer.eof);
	/* in one piece, as far as it has come */
	t.read = t.last = 0;
	t.piece = MOST;
	server_says(100);
	patience_until(patience_turn(t.loop), t.read == 100);
	assert_true(t.in_order);
	for (int i = 0; i < 20; i++)
		patience_turn(t.loop);
	assert_true(t.end == 100 || t.end == -EAGAIN);
	assert_true(peer_is_quiet(&t.peer));
	/* the beginning of a record */
	assert_int_equal(write(t.server_fd, "\x17\x03\x03", 3), 3);
	assert_false(peer_is_quiet(&t.peer));
}

/* With the last bytes, or a moment later; without the notice it is cut. */
static void
test_ends_and_cuts(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		if (i > 0) {
			stop(state);
			start(state);
		}
		open_both();
		t.piece = MOST;
		server_says(10);
		if (i == 0)
			tls_stream_end(t.server);
		else
			shutdown(t.server_fd, SHUT_WR);
		patience_until(patience_turn(t.loop), t.end == 0);
		assert_int_equal(t.read, 10);
		assert_true(t.peer.eof);
		assert_int_equal(t.peer.cut, i);
		assert_false(peer_is_quiet(&t.peer));
	}
}

static void
test_another_name(void **state)
{
	(void)state;
	assert_int_equal(start_as("other.example"), -EPROTO);
	assert_non_null(strstr(peer_tls_why(&t.peer), "other.example"));
	assert_int_equal(t.announced, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_pieces_in_order),
		T(test_the_end_is_told),
		T(test_what_was_read_ahead),
		T(test_ends_and_cuts),
		T(test_another_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
