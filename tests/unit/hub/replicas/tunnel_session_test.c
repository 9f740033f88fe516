/* A node's session on a worker, and without any: streams, their codes, and a caller's socket that
 * is handed to the worker. TSan runs this, too. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "base/core/rate.h"
#include "base/core/util.h"
#include "tests/unit/hub/replicas/tunnel_session_bed.h"

/* Sends it all, and reads it back behind what has come before. */
static void
bulk_and_back(int fd, const char *before)
{
	static char got[BULK + 64];
	size_t sent = 0, n = 0, all = strlen(before) + BULK;
	ssize_t rc;

	while (n < all) {
		while (sent < BULK && (rc = write(fd, bulk + sent, BULK - sent)) > 0)
			sent += (size_t)rc;
		patience_turn(loop);
		while (n < all && (rc = read(fd, got + n, all - n)) > 0)
			n += (size_t)rc;
	}
	assert_memory_equal(got, before, strlen(before));
	assert_memory_equal(got + strlen(before), bulk, BULK);
}

/* Answers, refusals, resets and bytes are what the node's are. */
static void
test_streams(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, false);
	bed_echo(&c);
	until(tunnel_session_count(t.session) == 1);
	stream_end(c.stream);
	until(stream_eof(c.stream));
	stream_close(&c.stream, STREAM_DONE);

	bed_refused(&t, &c);

	assert_int_equal(bed_ask(&t, &c, "reset:1", false), 0);
	until(c.reset == STREAM_BROKEN);
	assert_int_equal(c.answered, 0);

	assert_int_equal(bed_ask(&t, &c, "no target", false), -EINVAL);
	bed_end(&t);
}

/* A node that resets with codes that accuse its peer accuses the hub's session to it, and not the
 * one in which all streams to the nodes of a worker cross. */
static void
test_codes_of_a_node(void **state)
{
	static const struct {
		unsigned from, to;
	} codes[] = {{STREAM_REFUSED, STREAM_REFUSED}, {STREAM_CANCELLED, STREAM_CANCELLED},
		{NGHTTP2_INTERNAL_ERROR, STREAM_BROKEN}, {NGHTTP2_PROTOCOL_ERROR, STREAM_BROKEN}};
	struct tunnel hostile, t;
	struct caller c, dials[20];

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, false);
	for (int tunnels = 0; tunnels < 3; tunnels++) { /* the node's end counts its resets, too */
		bed_start(&hostile);
		hostile.node.resets_with = NGHTTP2_PROTOCOL_ERROR;
		while (hostile.node.opened < 900) {
			for (size_t i = 0; i < ARRAY_LEN(dials); i++)
				assert_int_equal(bed_ask(&hostile, &dials[i], "reset:1", false), 0);
			for (size_t i = 0; i < ARRAY_LEN(dials); i++)
				until(dials[i].stream == NULL);
		}
		bed_end(&hostile);
	}
	stream_write(c.stream, "hello", 5);
	until(c.n == 5 || c.reset != 0);
	assert_int_equal(c.reset, 0);
	bed_start(&hostile);
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		hostile.node.resets_with = codes[i].from;
		assert_int_equal(bed_ask(&hostile, &dials[0], "reset:1", false), 0);
		until(dials[0].stream == NULL);
		assert_int_equal(dials[0].reset, codes[i].to);
	}
	bed_end(&hostile);
	stream_close(&c.stream, STREAM_CANCELLED);
	bed_end(&t);
}

/* The first bytes go to the node before it has answered; who gives up resets its stream. */
static void
test_first_bytes(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_start(&t);
	assert_int_equal(bed_ask(&t, &c, "later:1", true), 0);
	stream_write(c.stream, bulk, FIRST);
	until(t.node.stream != NULL);
	until(stream_room(t.node.stream) > 0);
	stream_close(&c.stream, STREAM_CANCELLED);
	until(t.node.reset == STREAM_CANCELLED);
	assert_int_equal(c.answered, 0);
	bed_end(&t);
}

/* What was sent in the stream comes first, then what is in the socket. */
static void
test_socket_is_handed_over(void **state)
{
	struct tunnel t;
	struct caller c;
	char byte;
	int fd;

	(void)state;
	bed_start(&t);
	for (int limited = 0; limited < 2; limited++) {
		struct rate rate = {.per_s = 1 << 30};

		bed_reach(&t, &c, true);
		stream_write(c.stream, "first", 5);
		fd = bed_join(&c, limited ? &rate : NULL);
		bulk_and_back(fd, "first");
		assert_int_equal(c.ended, 0);
		shutdown(fd, SHUT_WR);
		until(read(fd, &byte, 1) == 0);
		until(c.ended == 1);
		assert_true(c.report.whole);
		assert_int_equal(c.report.to_stream, BULK);
		assert_int_equal(c.report.to_other, 5 + BULK);
		close(fd);
		until(tunnel_session_count(t.session) == 0);
	}
	bed_end(&t);
}

/* One that is set where there was none, or taken away, is so for what is under way, too. */
static void
test_a_limit_of_bytes_comes_later(void **state)
{
	_Atomic uint64_t waits = 0;
	struct rate rate = {.waits = &waits};
	char got[2 * RATE_BURST_LEAST];
	struct tunnel t;
	struct caller c;
	size_t n = 0;
	ssize_t rc;
	int fd;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, true);
	fd = bed_join(&c, &rate);
	bulk_and_back(fd, "");
	assert_int_equal(waits, 0);
	rate.per_s = 1;
	assert_int_equal(write(fd, bulk, sizeof got), sizeof got);
	until(waits > 0);
	rate.per_s = 0;
	while (n < sizeof got) {
		patience_turn(loop);
		if ((rc = read(fd, got + n, sizeof got - n)) > 0)
			n += (size_t)rc;
	}
	assert_memory_equal(got, bulk, sizeof got);
	close(fd);
	until(c.ended == 1);
	bed_end(&t);
}

/* Whoever breaks it off, and whenever: both ends see a reset, and the owner is told once. */
static void
test_breaks(void **state)
{
	struct tunnel t;
	struct caller c;
	char byte;
	int fd;

	(void)state;
	bed_start(&t);
	for (int early = 0; early < 2; early++) { /* the owner; a worker may not have begun */
		bed_reach(&t, &c, true);
		fd = bed_join(&c, NULL);
		if (!early)
			bulk_and_back(fd, "");
		t.node.reset = 0;
		relay_worker_break(c.relay, "told so");
		until(c.ended == 1);
		assert_int_equal(read(fd, &byte, 1), 0);
		assert_string_equal(c.report.why, "told so");
		assert_false(c.report.whole);
		until(t.node.reset != 0);
		close(fd);
	}
	bed_reach(&t, &c, true); /* the owner gives it up */
	fd = bed_join(&c, NULL);
	t.node.reset = 0;
	relay_worker_free(&c.relay);
	until(t.node.reset != 0);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	assert_int_equal(c.ended, 0);

	bed_reach(&t, &c, true); /* the node, ahead of the socket */
	stream_close(&t.node.stream, STREAM_BROKEN);
	fd = bed_join(&c, NULL);
	until(c.ended == 1);
	assert_false(c.report.whole);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	bed_end(&t);
}

/* A worker that hangs holds up nobody who breaks relays off, those that it has begun and those that
 * it has not: each is told of the first reason, once the worker goes on. */
static void
test_breaks_wait_for_no_worker(void **state)
{
	struct caller c[4];
	struct tunnel t;
	int fds[ARRAY_LEN(c)];
	char byte;

	(void)state;
	bed_start(&t);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		bed_reach(&t, &c[i], true);
		if (i >= 2)
			continue;
		fds[i] = bed_join(&c[i], NULL);
		bulk_and_back(fds[i], "");
	}
	workers_bed_hold();
	alarm(60); /* it would wait forever */
	for (size_t i = 2; i < ARRAY_LEN(c); i++)
		fds[i] = bed_join(&c[i], NULL);
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		relay_worker_break(c[i].relay, i % 2 == 0 ? "told so" : "for another reason");
		relay_worker_break(c[i].relay, "too late");
	}
	patience_turn(loop);
	alarm(0);
	workers_bed_release();
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		until(c[i].ended == 1);
		assert_string_equal(c[i].report.why, i % 2 == 0 ? "told so" : "for another reason");
		assert_false(c[i].report.whole);
		assert_int_equal(read(fds[i], &byte, 1), 0);
		close(fds[i]);
	}
	bed_end(&t);
}

static void
on_nothing(void *arg)
{
	(void)arg;
}

/* It has ended by itself, and neither knows of the other's: the break finds it there. */
static void
test_break_of_what_has_ended(void **state)
{
	struct session_worker *w;
	struct tunnel t;
	struct caller c;
	int fd, unread = 0;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, true);
	w = t.session->worker;
	fd = bed_join(&c, NULL);
	assert_int_equal(write(fd, "hello", 5), 5);
	until(ioctl(fd, FIONREAD, &unread) == 0 && unread == 5);
	close(fd); /* a reset */
	for (int i = 0; i < 20; i++)
		session_worker_ask(w, on_nothing, NULL);
	workers_bed_hold();
	relay_worker_break(c.relay, "too late");
	until(c.ended == 1);
	assert_string_equal(c.report.why, "the socket was reset");
	for (int i = 0; i < 20; i++)
		patience_turn(loop);
	workers_bed_release();
	session_worker_ask(w, on_nothing, NULL);
	bed_end(&t);
}

/* The tunnel breaks: a dial is told that it is lost, so that it may begin again elsewhere. */
static void
test_lost(void **state)
{
	struct session_stats past = {0};
	struct caller dialling, open, held;
	struct tunnel t;
	int fd;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &open, false);
	bed_reach(&t, &held, true);
	fd = bed_join(&held, NULL);
	assert_int_equal(bed_ask(&t, &dialling, "later:1", false), 0);
	until(t.node.opened == 3);
	session_free(&t.node.session);
	until(t.ended == 1 && dialling.reset != 0 && open.reset != 0 && held.ended == 1);
	assert_int_equal(dialling.reset, STREAM_LOST);
	assert_int_equal(open.reset, STREAM_LOST);
	assert_true(t.rc < 0);
	assert_int_equal(bed_ask(&t, &dialling, "echo:1", false), -ESHUTDOWN);
	tunnel_session_free(&t.session, &past);
	assert_int_equal(past.opened, 3);
	bed_close_streams(&t.node);
	close(fd);
}

/* It finishes what it has, and takes nothing new. */
static void
test_drains(void **state)
{
	struct tunnel t;
	struct caller c, late;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, false);
	tunnel_session_send_away(t.session);
	tunnel_session_drain(t.session);
	assert_int_equal(bed_ask(&t, &late, "echo:1", false), -ESHUTDOWN);
	stream_write(c.stream, "hello", 5);
	until(c.n == 5);
	assert_int_equal(t.ended, 0);
	stream_end(c.stream);
	until(stream_eof(c.stream));
	stream_close(&c.stream, STREAM_DONE);
	until(t.ended == 1 && t.node.ended == 1);
	assert_int_equal(t.rc, 0);
	bed_end(&t);
}
int
main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_streams),
		ON_WORKERS(test_codes_of_a_node),
		BOTH(test_first_bytes),
		BOTH(test_socket_is_handed_over),
		BOTH(test_a_limit_of_bytes_comes_later),
		BOTH(test_breaks),
		ON_WORKERS(test_breaks_wait_for_no_worker),
		ON_WORKERS(test_break_of_what_has_ended),
		BOTH(test_lost),
		BOTH(test_drains),
	};

	return cmocka_run_group_tests(tests, workers_bed_make, workers_bed_free);
}
