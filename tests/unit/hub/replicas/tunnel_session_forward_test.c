/* Streams that nodes open: a node's session is on a worker, the hub takes them on its loop. TSan
 * runs this, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <nghttp2/nghttp2.h>

#include "tests/unit/hub/replicas/tunnel_session_bed.h"
#include "tunnel/h2/session_private.h"

/* Answers, refusals, resets, bytes and ends; a field of the node's own is not taken for the number
 * of its session. */
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
	stream_close(&t.node.stream, STREAM_DONE);

	bed_refused(&t, &c);

	t.node.resets_with = STREAM_CANCELLED;
	assert_int_equal(bed_ask(&t, &c, "reset:1", false), 0);
	until(c.reset == STREAM_CANCELLED);
	bed_end(&t);
}

/* Whoever gives up, and before the answer or after it: the other end hears it. */
static void
test_resets(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_start(&t);
	for (int answered = 0; answered < 2; answered++) {
		const char *target = answered ? "echo:1" : "later:1";

		assert_int_equal(bed_ask(&t, &c, target, false), 0);
		until(t.node.stream != NULL && c.answered == (unsigned)answered);
		stream_close(&c.stream, STREAM_CANCELLED);
		until(t.node.reset == STREAM_CANCELLED);
		t.node.reset = 0;
		assert_int_equal(bed_ask(&t, &c, target, false), 0);
		until(t.node.stream != NULL && c.answered == (unsigned)answered);
		stream_close(&t.node.stream, STREAM_CANCELLED);
		until(c.reset == STREAM_CANCELLED);
	}
	bed_end(&t);
}

/* Both hear that the connection between them is lost. */
static void
test_lost(void **state)
{
	struct session_stats past = {0};
	struct tunnel t;
	struct caller c;

	(void)state;
	for (int answered = 0; answered < 2; answered++) {
		const char *target = answered ? "echo:1" : "later:1";

		bed_start(&t);
		assert_int_equal(bed_ask(&t, &c, target, false), 0);
		until(t.node.stream != NULL && c.answered == (unsigned)answered);
		session_free(&t.node.session);
		until(t.node.reset == STREAM_LOST);
		until(t.ended == 1);
		bed_end(&t);

		bed_start(&t);
		assert_int_equal(bed_ask(&t, &c, target, false), 0);
		until(t.node.stream != NULL && c.answered == (unsigned)answered);
		tunnel_session_free(&t.session, &past);
		until(c.reset == STREAM_LOST);
		until(t.node.reset == STREAM_LOST);
		bed_end(&t);
	}
	assert_int_equal(past.accepted, 2);
}

/* Freed before the worker has begun, or while a stream crosses: nothing is left of it. */
static void
test_freed_early(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	for (int i = 0; i < 40; i++) {
		bed_start(&t);
		assert_int_equal(bed_ask(&t, &c, i % 2 ? "echo:1" : "later:1", false), 0);
		for (int turns = 0; turns < i / 2; turns++)
			loop_turn(loop);
		bed_end(&t);
		until(c.reset != 0);
	}
	assert_int_equal(t.ended, 0);
}

static void
on_break(void *arg)
{
	session_free(&((struct session_worker *)arg)->far);
}

/* What crosses is lost: no node hears a code that only this hub knows, one that waits for its
 * answer asks again, and the next stream finds another way. */
static void
test_the_way_is_lost(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_start(&t);
	for (int answered = 0; answered < 2; answered++) {
		assert_int_equal(bed_ask(&t, &c, answered ? "echo:1" : "later:1", false), 0);
		until(t.node.stream != NULL && c.answered == (unsigned)answered);
		session_worker_ask(t.session->worker, on_break, t.session->worker);
		until(c.reset != 0);
		assert_int_equal(c.reset, answered ? STREAM_CANCELLED : STREAM_REFUSED);
		until(t.node.stream == NULL);
		do {
			assert_int_equal(bed_ask(&t, &c, "echo:1", false), 0);
			until(c.answered == 1 || c.reset == STREAM_REFUSED);
		} while (c.answered == 0);
		stream_close(&c.stream, STREAM_CANCELLED);
		until(t.node.stream == NULL);
	}
	bed_end(&t);
}

/* The owner's loop is behind by many calls that were given up: told as what it is. */
static void
test_a_hub_that_is_behind(void **state)
{
	struct session_worker *w;
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, false);
	stream_close(&c.stream, STREAM_CANCELLED);
	w = t.session->worker;
	session_worker_ask(w, bed_on_crowd, w->far);
	assert_int_equal(bed_ask(&t, &c, "echo:1", false), 0);
	until(c.answered == 1);
	assert_int_equal(c.status, 503);
	assert_string_equal(c.reason, "the hub carries too many connections");
	stream_close(&c.stream, STREAM_CANCELLED);
	session_worker_ask(w, bed_on_crowd_left, w->far);
	bed_reach(&t, &c, false);
	stream_close(&c.stream, STREAM_CANCELLED);
	bed_end(&t);
}

/* Two nodes say much with each stream, each as much as it may: that is held against no one else. */
static void
test_what_nodes_say_adds_up(void **state)
{
	enum { EACH = 30, NAME = 7000 };
	static char name[NAME + 1];
	const struct stream_field field = {name, "1"};
	const struct stream_request request = {
		.authority = "echo:1", .fields = &field, .n_fields = 1};
	static const struct stream_events events = {
		.answered = bed_on_answered, .reset = bed_on_reset};
	struct tunnel t[2];

	(void)state;
	memset(name, 'x', NAME);
	bed_start(&t[0]);
	bed_start(&t[1]);
	assert_ptr_equal(t[0].session->worker, t[1].session->worker);
	for (int i = 0; i < 2 * EACH; i++) {
		struct tunnel *u = &t[i % 2];
		struct caller c = {0};

		assert_int_equal(
			session_open(u->node.session, &request, &events, &c, &c.stream), 0);
		until(c.answered == 1 || c.reset != 0);
		assert_int_equal(c.reset, 0);
		assert_int_equal(c.status, 200);
		stream_close(&c.stream, STREAM_CANCELLED);
		until(u->node.stream == NULL);
	}
	bed_end(&t[0]);
	bed_end(&t[1]);
}

static void
on_use_up(void *arg)
{
	nghttp2_session *ng = *(nghttp2_session **)((struct session *)arg)->h2; /* its first */

	assert_int_equal(nghttp2_session_set_next_stream_id(ng, INT32_MAX), 0);
}

/* After 2^30 streams to the hub's loop, what crosses is refused until another pair is there. */
static void
test_streams_are_used_up(void **state)
{
	struct tunnel t;
	struct caller c;

	(void)state;
	bed_start(&t);
	bed_reach(&t, &c, false);
	stream_close(&c.stream, STREAM_CANCELLED);
	session_worker_ask(t.session->worker, on_use_up, t.session->worker->far);
	bed_reach(&t, &c, false);
	stream_close(&c.stream, STREAM_CANCELLED);
	do {
		assert_int_equal(bed_ask(&t, &c, "echo:1", false), 0);
		until(c.answered == 1 || c.reset == STREAM_REFUSED);
	} while (c.answered == 0);
	assert_int_equal(c.status, 200);
	stream_write(c.stream, "hello", 5);
	until(c.n == 5);
	stream_close(&c.stream, STREAM_CANCELLED);
	bed_end(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		ON_WORKERS(test_streams),
		ON_WORKERS(test_resets),
		ON_WORKERS(test_lost),
		ON_WORKERS(test_freed_early),
		ON_WORKERS(test_the_way_is_lost),
		ON_WORKERS(test_a_hub_that_is_behind),
		ON_WORKERS(test_what_nodes_say_adds_up),
		ON_WORKERS(test_streams_are_used_up),
	};

	bed_role = SESSION_SERVER;
	return cmocka_run_group_tests(tests, workers_bed_make, workers_bed_free);
}
