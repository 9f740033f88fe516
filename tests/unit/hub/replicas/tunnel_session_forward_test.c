/* Streams that nodes open: a node's session is on a worker, the hub takes them on its loop. TSan
 * runs this, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
	crossing_ends_free(&((struct session_worker *)arg)->far);
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
		bed_reach(&t, &c, false);
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
	session_worker_ask(w, bed_on_crowd, LIST_FIRST(&w->far)->session);
	assert_int_equal(bed_ask(&t, &c, "echo:1", false), 0);
	until(c.answered == 1);
	assert_int_equal(c.status, 503);
	assert_string_equal(c.reason, "the hub carries too many connections");
	stream_close(&c.stream, STREAM_CANCELLED);
	session_worker_ask(w, bed_on_crowd_left, LIST_FIRST(&w->far)->session);
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

/* --- memory --------------------------------------------------------------------------------- */

enum { SCANT = 1 << 20, SOME = 12, MANY = 24, TOO_MANY = 64 };

struct call {
	struct caller at_node;
	struct stream *at_hub;
	bool is_read; /* by its target; else it reads nothing */
	bool whole; /* its target has seen its end */
};

static void
call_on_reset(void *arg, unsigned code)
{
	struct call *c = arg;

	stream_close(&c->at_hub, code);
}

static void
call_on_readable(void *arg)
{
	struct call *c = arg;

	if (c->is_read)
		stream_consume(c->at_hub, c->at_hub->in.len);
	c->whole |= stream_eof(c->at_hub);
}

/* Returns false if the hub refuses. */
static bool
call_begin(struct call *c, struct tunnel *t)
{
	static const struct stream_events events = {
		.readable = call_on_readable, .reset = call_on_reset};

	assert_int_equal(bed_ask(t, &c->at_node, "echo:1", false), 0);
	until(c->at_node.answered == 1 || c->at_node.reset != 0);
	if (c->at_node.reset != 0) {
		assert_int_equal(c->at_node.reset, STREAM_REFUSED);
		return false;
	}
	assert_int_equal(c->at_node.status, 200);
	c->at_hub = take_ptr(&t->node.stream);
	stream_use(c->at_hub, &events, c);
	return true;
}

static void
call_end(struct call *c)
{
	stream_close(&c->at_node.stream, STREAM_CANCELLED);
	stream_close(&c->at_hub, STREAM_CANCELLED);
}

struct waiting {
	const struct session_worker *worker;
	size_t held, crossing;
};

static void
on_waiting(void *arg)
{
	struct waiting *w = arg;

	w->held = w->worker->budget.held;
	w->crossing = w->worker->crossing_budget.queued;
}

/* What waits on the worker: in the nodes' own streams, and to cross. */
static struct waiting
waiting(const struct tunnel *t)
{
	struct waiting w = {.worker = t->session->worker};

	session_worker_ask(t->session->worker, on_waiting, &w);
	return w;
}

/* Says as much as it can; returns true once that is as much as has crossed, and more. */
static bool
say_all(struct call *calls, size_t n, const struct tunnel *t)
{
	bool full = true;

	for (size_t i = 0; i < n; i++) {
		struct stream *st = calls[i].at_node.stream;

		stream_write(st, bulk, MIN(stream_room(st), (size_t)BULK));
		full &= calls[i].at_hub->in.len == STREAM_WINDOW_BASE;
	}
	return full && waiting(t).held > SCANT / WORKERS;
}

static void
scant_start(struct tunnel t[2])
{
	session_workers_free(&bed_workers);
	bed_workers = session_workers_new(loop, loops, WORKERS, SESSION_SERVER, SCANT);
	bed_start(&t[0]);
	bed_start(&t[1]);
	assert_ptr_equal(t[0].session->worker, t[1].session->worker);
}

/* A node whose calls, begun while there was memory, hold all of it is refused more of them: it
 * alone. */
static void
test_a_node_that_holds_all_memory(void **state)
{
	static struct call calls[SOME], more, others;
	struct tunnel t[2];

	(void)state;
	scant_start(t);
	for (size_t i = 0; i < SOME; i++)
		assert_true(call_begin(&calls[i], &t[0]));
	until(say_all(calls, SOME, &t[0]));
	assert_false(call_begin(&more, &t[0]));
	assert_true(call_begin(&others, &t[1]));
	for (size_t i = 0; i < SOME; i++)
		call_end(&calls[i]);
	call_end(&others);
	bed_end(&t[0]);
	bed_end(&t[1]);
}

/* What has crossed is the node's as well. */
static void
test_memory_of_what_crosses(void **state)
{
	enum { EACH = STREAM_WINDOW_BASE + STREAM_OUT_SHORT };
	static struct call calls[MANY], others;
	struct tunnel t[2];
	size_t n = 0;

	(void)state;
	scant_start(t);
	for (; n < MANY && call_begin(&calls[n], &t[0]); n++) {
		stream_write(calls[n].at_node.stream, bulk, EACH);
		until(calls[n].at_hub->in.len == STREAM_WINDOW_BASE &&
			waiting(&t[0]).crossing == (n + 1) * STREAM_OUT_SHORT);
	}
	assert_in_range(n * EACH, SCANT + 1, SCANT + EACH);
	assert_true(call_begin(&others, &t[1]));
	for (size_t i = 0; i < n; i++)
		call_end(&calls[i]);
	call_end(&others);
	bed_end(&t[0]);
	bed_end(&t[1]);
}

/* A node begins its calls first, and fills them later: those that go beyond twice the memory end,
 * and another node's go on. */
static void
test_calls_that_are_filled_later(void **state)
{
	enum { EACH = STREAM_WINDOW_BASE + STREAM_OUT_SHORT };
	static struct call calls[TOO_MANY], last = {.is_read = true}, others[2];
	struct tunnel t[2];
	unsigned ended = 0;

	(void)state;
	scant_start(t);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_true(call_begin(&others[i], &t[1]));
	assert_true(call_begin(&last, &t[0]));
	for (size_t i = 0; i < TOO_MANY; i++)
		assert_true(call_begin(&calls[i], &t[0]));
	for (size_t i = 0; i < TOO_MANY; i++) {
		const struct caller *c = &calls[i].at_node;

		stream_write(c->stream, bulk, EACH);
		until(c->reset != 0 ||
			(calls[i].at_hub != NULL && calls[i].at_hub->in.len == STREAM_WINDOW_BASE));
		assert_in_range(fair_share_used(bed_workers->shares), 0, 2 * SCANT + 2 * EACH);
		ended += c->reset != 0;
	}
	assert_in_range(ended, 1, TOO_MANY - 2 * SCANT / EACH + 1);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		stream_write(others[i].at_node.stream, bulk, STREAM_WINDOW_BASE);
		until(others[i].at_hub->in.len == STREAM_WINDOW_BASE);
	}
	/* What is reset looks whole to nobody, also if its end comes in the same turn. */
	assert_true(fair_share_used(bed_workers->shares) > 2 * SCANT);
	stream_write(last.at_node.stream, bulk, 1000);
	stream_end(last.at_node.stream);
	until(last.at_node.reset != 0);
	assert_false(last.whole);
	call_end(&last);
	for (size_t i = 0; i < TOO_MANY; i++)
		call_end(&calls[i]);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		call_end(&others[i]);
	bed_end(&t[0]);
	bed_end(&t[1]);
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
		ON_WORKERS(test_a_node_that_holds_all_memory),
		ON_WORKERS(test_memory_of_what_crosses),
		ON_WORKERS(test_calls_that_are_filled_later),
	};

	bed_role = SESSION_SERVER;
	return cmocka_run_group_tests(tests, workers_bed_make, workers_bed_free);
}
