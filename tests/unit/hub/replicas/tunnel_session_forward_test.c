/* Streams that nodes open: a node's session is on a worker, the hub takes them on its loop. */
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
	stream_write(c.stream, "hello", 5);
	until(c.n == 5);
	assert_memory_equal(c.got, "hello", 5);
	until(tunnel_session_count(t.session) == 1);
	stream_end(c.stream);
	until(stream_eof(c.stream));
	stream_close(&c.stream, STREAM_DONE);
	stream_close(&t.node.stream, STREAM_DONE);

	assert_int_equal(bed_ask(&t, &c, "refused:1", false), 0);
	until(c.answered == 1);
	assert_int_equal(c.status, 502);
	assert_string_equal(c.reason, "nobody listens");
	stream_close(&c.stream, STREAM_CANCELLED);

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
		until(t.node.reset == STREAM_CANCELLED);
		until(t.ended == 1);
		bed_end(&t);

		bed_start(&t);
		assert_int_equal(bed_ask(&t, &c, target, false), 0);
		until(t.node.stream != NULL && c.answered == (unsigned)answered);
		tunnel_session_free(&t.session, &past);
		until(c.reset == STREAM_LOST);
		until(t.node.reset == STREAM_CANCELLED);
		bed_end(&t);
	}
	assert_int_equal(past.accepted, 2);
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
		ON_WORKERS(test_streams_are_used_up),
	};

	bed_role = SESSION_SERVER;
	return cmocka_run_group_tests(tests, workers_bed_make, workers_bed_free);
}
