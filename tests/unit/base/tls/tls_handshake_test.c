/* Handshakes on worker threads: what comes of them, and every end. TSan runs this, too. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/tls/tls_handshake.h"
#include "tests/unit/base/tls/workers_bed.h"

struct far { /* the node: a client on the test's loop */
	struct tls_stream *tls;
	bool open, failed;
};

struct near { /* the hub: the handshake's owner */
	struct tls_handshake *handshake;
	struct tls_stream *tls;
	struct preauth_conn place; /* in use, if `begin` is told so */
	unsigned done, events, dropped;
	char why[256];
};

#define until(condition) patience_until(patience_turn(loop), condition)

static void
on_tls(void *arg, enum tls_event event)
{
	struct far *f = arg;

	f->open |= event == TLS_OPEN;
	f->failed |= event == TLS_FAILED;
}

static void
on_near(void *arg, enum tls_event event)
{
	((struct near *)arg)->events += event == TLS_READABLE;
}

static void
on_done(void *arg, struct tls_stream *stream, const char *why)
{
	struct near *n = arg;

	n->done++;
	n->handshake = NULL;
	n->tls = stream;
	if (stream != NULL)
		tls_stream_use(stream, on_near, n);
	else
		snprintf(n->why, sizeof n->why, "%s", why);
}

/* Returns the client's end. */
static int
begin(struct near *n, uint16_t client_number)
{
	const struct addr from = addr_ipv4(INADDR_LOOPBACK + client_number, 1);
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
	n->handshake = tls_handshake_new(&(struct tls_handshake_setup){.loop = loop,
		.workers = pool,
		.fd = fd[0],
		.ctx = server,
		.alpn = "test/1",
		.from = &from,
		.place = &n->place,
		.done = on_done,
		.arg = n});
	return fd[1];
}

static void
connect_pair(struct near *n, struct far *f, struct ssl_ctx_st *ctx)
{
	memset(n, 0, sizeof *n);
	memset(f, 0, sizeof *f);
	assert_int_equal(tls_stream_new(&(struct tls_setup){.loop = loop,
						.fd = begin(n, 1),
						.ctx = ctx,
						.host = "hub.example",
						.alpn = "test/1",
						.on = on_tls,
						.arg = f},
				 &f->tls, NULL),
		0);
}

static void
open_pair(struct near *n, struct far *f)
{
	connect_pair(n, f, client);
	until(n->done == 1 && f->open);
	assert_string_equal(n->why, "");
}

static void
close_pair(struct near *n, struct far *f)
{
	tls_stream_free(&n->tls);
	tls_stream_free(&f->tls);
}

/* The stream is open on the owner's loop, which hears of what comes, and knows who it is. */
static void
test_moved(void **state)
{
	char got[sizeof bulk];
	struct near n;
	struct far f;
	size_t n_got = 0, sent = 0;
	ssize_t rc;

	(void)state;
	open_pair(&n, &f);
	assert_string_equal(tls_stream_peer(n.tls), "edge-1");
	assert_int_equal(tls_stream_read(n.tls, got, 1), -EAGAIN);
	n.events = 0;
	while (n_got < sizeof bulk) {
		while (sent < sizeof bulk &&
			(rc = tls_stream_write(f.tls, bulk + sent, sizeof bulk - sent)) > 0)
			sent += (size_t)rc;
		patience_turn(loop);
		while (n_got < sizeof bulk &&
			(rc = tls_stream_read(n.tls, got + n_got, sizeof got - n_got)) > 0)
			n_got += (size_t)rc;
	}
	assert_memory_equal(got, bulk, sizeof bulk);
	assert_true(n.events > 0);
	assert_int_equal(tls_stream_write(n.tls, "x", 1), 1);
	until(tls_stream_read(f.tls, got, 1) == 1);
	tls_stream_free(&f.tls);
	n.events = 0;
	until(n.events > 0);
	assert_int_equal(tls_stream_read(n.tls, got, 1), 0);
	tls_stream_free(&n.tls);
}

/* What the client sends behind its handshake is not lost between the loops. */
static void
test_early_bytes(void **state)
{
	struct near n;
	struct far f;
	char got[5];
	ssize_t rc;

	(void)state;
	connect_pair(&n, &f, client);
	until(f.open);
	assert_int_equal(tls_stream_write(f.tls, "hello", 5), 5);
	until(n.done == 1);
	assert_non_null(n.tls);
	until((rc = tls_stream_read(n.tls, got, sizeof got)) != -EAGAIN);
	assert_int_equal(rc, 5);
	assert_memory_equal(got, "hello", 5);
	close_pair(&n, &f);
}

static void
test_refused(void **state)
{
	struct near n;
	struct far f;

	(void)state;
	connect_pair(&n, &f, stranger);
	until(n.done == 1);
	assert_null(n.tls);
	assert_non_null(strstr(n.why, "certificate"));
	tls_stream_free(&f.tls);
}

/* At whatever moment its owner gives it up, the other end sees the end, and nobody is told. */
static void
test_given_up(void **state)
{
	struct near n;
	struct far f;

	(void)state;
	for (unsigned turns = 0; turns < 60; turns++) {
		char byte;
		ssize_t rc = -EAGAIN;

		connect_pair(&n, &f, client);
		for (unsigned i = 0; i < turns && n.done == 0; i++)
			turns % 2 == 0 ? patience_turn(loop) : loop_turn(loop);
		if (n.done == 0) {
			tls_handshake_free(&n.handshake);
			until(f.failed ||
				(f.open && (rc = tls_stream_read(f.tls, &byte, 1)) != -EAGAIN));
			assert_true(f.failed || rc <= 0);
			assert_int_equal(n.done, 0);
		}
		close_pair(&n, &f);
	}
}

/* A client that has begun, and says nothing more, holds up nobody: neither its own worker's others
 * nor the owner. */
static void
test_silent(void **state)
{
	struct near silent[2 * WORKERS], n;
	struct far f;
	int fd[2 * WORKERS];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
		memset(&silent[i], 0, sizeof silent[i]);
		fd[i] = begin(&silent[i], 2);
		assert_int_equal(write(fd[i], "\x16\x03\x01\x02", 4), 4);
	}
	for (size_t i = 0; i < WORKERS; i++) {
		open_pair(&n, &f);
		close_pair(&n, &f);
	}
	for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
		assert_int_equal(silent[i].done, 0);
		close(fd[i]);
		until(silent[i].done == 1);
		assert_null(silent[i].tls);
	}
}

static void
on_place_needed(void *arg)
{
	struct near *n = arg;

	n->dropped++;
	tls_handshake_free(&n->handshake);
}

static bool
take_place(struct near *n, uint16_t client_number, uint64_t now_ms)
{
	const struct addr from = addr_ipv4(INADDR_LOOPBACK + client_number, 1);

	n->place = (struct preauth_conn){.drop = on_place_needed, .arg = n};
	return preauth_enter(preauth, &n->place, &from, now_ms);
}

/* Of one address with all the places in use, a handshake that waits for its worker keeps
 * its place, however old it is; one that waits for its client does not. */
static void
test_place_of_waiting(void **state)
{
	struct near all[PLACES], late = {.done = 0};
	int fd[PLACES];
	unsigned dropped = 0;

	(void)state;
	memset(all, 0, sizeof all);
	workers_bed_hold();
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		assert_true(take_place(&all[i], 3, 0));
		fd[i] = begin(&all[i], 3);
	}
	assert_false(take_place(&late, 3, 60 * 1000));
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_int_equal(all[i].dropped, 0);
	workers_bed_release();
	until(take_place(&late, 3, 60 * 1000));
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		dropped += all[i].dropped;
		preauth_leave(&all[i].place);
		tls_handshake_free(&all[i].handshake);
		close(fd[i]);
	}
	assert_int_equal(dropped, 1);
	preauth_leave(&late.place);
}

/* They take turns on the pool, and the counters tell. */
static void
test_spread(void **state)
{
	const char *steps;
	struct near n;
	struct far f;
	struct metrics m;

	(void)state;
	for (size_t i = 0; i < 2 * WORKERS; i++) {
		open_pair(&n, &f);
		close_pair(&n, &f);
	}
	metrics_init(&m);
	tls_workers_metrics(pool, &m);
	preauth_metrics(preauth, &m);
	assert_non_null(
		strstr(buf_str(&m.out), "edgeway_hub_worker_handshakes_total{worker=\"1\"} 2\n"));
	assert_non_null(
		strstr(buf_str(&m.out), "edgeway_hub_worker_handshakes_total{worker=\"2\"} 2\n"));
	/* one if the client's answer is there at once, and one for each part that comes later */
	steps = strstr(buf_str(&m.out), "\nedgeway_hub_handshake_steps_total ");
	assert_non_null(steps);
	assert_in_range(strtoul(strchr(steps, ' '), NULL, 10), 2 * WORKERS, 20 * WORKERS);
	assert_non_null(strstr(buf_str(&m.out), "edgeway_hub_handshake_steps_waiting 0\n"));
	metrics_fini(&m);
}

int
main(void)
{
	/* test_spread is first: it counts all of them */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_early_bytes),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_place_of_waiting),
	};

	return cmocka_run_group_tests(tests, workers_bed_make, workers_bed_free);
}
