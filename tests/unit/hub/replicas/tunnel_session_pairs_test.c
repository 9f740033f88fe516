/* What crosses to a worker and from it, for whichever end opens the streams: the numbers of a
 * pair's streams are used up, and another pair takes the next ones. TSan runs this, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/util.h"
#include "tests/unit/hub/replicas/tunnel_session_bed.h"

static int
from_owner(void **state)
{
	bed_role = SESSION_CLIENT;
	return bed_with_workers(state);
}

static int
from_nodes(void **state)
{
	bed_role = SESSION_SERVER;
	return bed_with_workers(state);
}

struct call {
	struct caller caller;
	struct stream *target; /* sends back what comes */
	size_t n;
};

static void
target_on_readable(void *arg)
{
	struct call *c = arg;
	const void *data;
	size_t n;

	while ((n = MIN(stream_peek(c->target, &data), stream_room(c->target))) > 0) {
		stream_write(c->target, data, n);
		stream_consume(c->target, n);
		c->n += n;
	}
}

static void
target_on_reset(void *arg, unsigned code)
{
	stream_close(&((struct call *)arg)->target, code);
}

static void
call_reached(struct tunnel *t, struct call *c)
{
	static const struct stream_events events = {
		.readable = target_on_readable, .reset = target_on_reset};

	c->target = take_ptr(&t->node.stream);
	stream_use(c->target, &events, c);
}

static void
call_begin(struct tunnel *t, struct call *c, bool held)
{
	bed_reach(t, &c->caller, held);
	call_reached(t, c);
}

static void
call_end(struct call *c)
{
	stream_close(&c->caller.stream, STREAM_CANCELLED);
	until(c->target == NULL);
}

static void
on_use_up(void *arg)
{
	bed_on_use_up(LIST_FIRST((struct crossing_ends *)arg)->session);
}

/* The next call has the last number of its pair. */
static void
use_up(const struct tunnel *t)
{
	struct session_worker *w = t->session->worker;

	if (bed_role == SESSION_CLIENT)
		on_use_up(&w->near);
	else
		session_worker_ask(w, on_use_up, &w->far);
}

struct ends_count {
	const struct crossing_ends *of;
	size_t n;
};

static void
on_count(void *arg)
{
	struct ends_count *count = arg;
	const struct crossing_end *e;

	LIST_FOREACH(e, count->of, link)
		count->n++;
}

static size_t
far_ends(const struct tunnel *t)
{
	struct ends_count far = {&t->session->worker->far, 0};

	session_worker_ask(t->session->worker, on_count, &far);
	return far.n;
}

/* n pairs are there, at both ends. */
static bool
are_pairs(const struct tunnel *t, size_t n)
{
	struct ends_count near = {&t->session->worker->near, 0};

	on_count(&near);
	return near.n == n && far_ends(t) == n;
}

/* --- tests ---------------------------------------------------------------------------------- */

enum { CHANGES = 4 };

struct calls {
	struct call first, last; /* of a pair */
};

/* The calls of several pairs, the former ones among them, and one that begins in the next pair. */
static void
calls_begin(struct tunnel *t, struct calls calls[CHANGES], struct call *next)
{
	for (size_t i = 0; i < CHANGES; i++) {
		call_begin(t, &calls[i].first, false);
		use_up(t);
		call_begin(t, &calls[i].last, false);
	}
	call_begin(t, next, false);
}

/* Open calls go on, new ones have a pair of their own, and a former pair goes with its last call,
 * whichever pair's it is. */
static void
test_open_calls_go_on(void **state)
{
	static const size_t order[CHANGES] = {2, 0, 3, 1};
	static struct calls calls[CHANGES];
	static struct call next;
	struct tunnel t;

	(void)state;
	bed_start(&t);
	calls_begin(&t, calls, &next);
	until(are_pairs(&t, CHANGES + 1));
	for (size_t i = 0; i < CHANGES; i++) {
		struct calls *of = &calls[order[i]];

		bed_echo(&of->first.caller);
		call_end(&of->first);
		bed_echo(&of->last.caller);
		assert_true(are_pairs(&t, CHANGES + 1 - i));
		call_end(&of->last);
		until(are_pairs(&t, CHANGES - i));
	}
	bed_echo(&next.caller);
	assert_int_equal(next.caller.reset, 0);
	call_end(&next);
	assert_true(are_pairs(&t, 1));
	bed_end(&t);
}

/* A pair without a call goes at once. */
static void
test_pair_without_calls(void **state)
{
	static struct call call;
	struct tunnel t;

	(void)state;
	bed_start(&t);
	for (int i = 0; i < 2 * CHANGES; i++) {
		call_begin(&t, &call, false);
		if (i % 2 == 0)
			use_up(&t);
		call_end(&call);
	}
	until(are_pairs(&t, 1));
	bed_end(&t);
}

/* The answer, and what was said before it. */
static void
test_dials_go_on(void **state)
{
	static struct call dialling, last, next;
	struct tunnel t;

	(void)state;
	bed_start(&t);
	assert_int_equal(bed_ask(&t, &dialling.caller, "later:1", false), 0);
	stream_write(dialling.caller.stream, "before", 6);
	until(t.node.stream != NULL);
	call_reached(&t, &dialling);
	use_up(&t);
	call_begin(&t, &last, false);
	call_begin(&t, &next, false);
	stream_answer(dialling.target, 200, "");
	until(dialling.caller.answered == 1);
	until((target_on_readable(&dialling), dialling.caller.n == 6));
	bed_echo(&dialling.caller);
	call_end(&dialling);
	call_end(&last);
	until(are_pairs(&t, 1));
	call_end(&next);
	bed_end(&t);
}

/* Streams of two pairs have the same number: each socket gets to its own. */
static void
test_sockets_of_two_pairs(void **state)
{
	static struct call calls[2], last;
	struct tunnel t;
	char got[8];
	int fds[2];

	(void)state;
	bed_start(&t);
	call_begin(&t, &calls[0], true);
	use_up(&t);
	call_begin(&t, &last, false);
	call_begin(&t, &calls[1], true);
	assert_int_equal(stream_id(calls[0].caller.stream), stream_id(calls[1].caller.stream));
	for (int i = 0; i < 2; i++) {
		fds[i] = bed_join(&calls[i].caller, NULL);
		assert_int_equal(write(fds[i], "hello", 5), 5);
		until(read(fds[i], got, sizeof got) == 5);
		assert_int_equal(calls[i].n, 5);
	}
	assert_int_equal(calls[0].n, 5);
	call_end(&last);
	until(are_pairs(&t, 1));
	for (int i = 0; i < 2; i++) {
		relay_worker_break(calls[i].caller.relay, "told so");
		until(calls[i].caller.ended == 1 && calls[i].target == NULL);
		assert_int_equal(calls[1].caller.ended, i);
		close(fds[i]);
	}
	bed_end(&t);
}

static void
flow_echo(struct caller *c)
{
	struct dgram_reader reader = {.held = 0};
	const void *data;
	size_t n;

	assert_true(dgram_put(c->stream, "hello", 5));
	until(dgram_get(&reader, c->stream, &data, &n) == 1);
	assert_int_equal(n, 5);
	assert_memory_equal(data, "hello", 5);
	assert_int_equal(dgram_get(&reader, c->stream, &data, &n), 0);
	dgram_reader_fini(&reader);
}

/* Datagrams wait for no word of a new pair's other end. */
static void
test_datagrams(void **state)
{
	static const struct stream_field field = {"edgeway-caller", "tests"};
	static const struct stream_request request = {
		.authority = "node:53", .fields = &field, .n_fields = 1, .udp = true};
	static const struct stream_events events = {
		.answered = bed_on_answered, .reset = bed_on_reset};
	static struct call flows[3];
	struct tunnel t;

	(void)state;
	bed_start(&t);
	call_begin(&t, &flows[0], false); /* the node has greeted */
	call_end(&flows[0]);
	for (size_t i = 0; i < ARRAY_LEN(flows); i++) {
		struct caller *c = &flows[i].caller;

		memset(c, 0, sizeof *c);
		assert_int_equal(
			tunnel_session_open(t.session, &request, &events, c, &c->stream), 0);
		until(c->answered == 1);
		assert_int_equal(c->status, 200);
		call_reached(&t, &flows[i]);
		if (i == 0)
			use_up(&t);
	}
	assert_true(are_pairs(&t, 2));
	for (size_t i = 0; i < ARRAY_LEN(flows); i++) {
		flow_echo(&flows[i].caller);
		call_end(&flows[i]);
	}
	until(are_pairs(&t, 1));
	bed_end(&t);
}

/* The hub stops with calls in several pairs. */
static void
test_stop(void **state)
{
	static struct calls calls[CHANGES];
	static struct call next;
	struct tunnel t;

	(void)state;
	bed_start(&t);
	calls_begin(&t, calls, &next);
	assert_true(are_pairs(&t, CHANGES + 1));
	bed_end(&t);
	session_workers_free(&bed_workers);
	for (size_t i = 0; i < CHANGES; i++)
		until(calls[i].first.caller.reset != 0 && calls[i].last.caller.reset != 0 &&
			calls[i].first.target == NULL && calls[i].last.target == NULL);
	until(next.caller.reset != 0 && next.target == NULL);
}

/* And while a worker's new pair is on its way to the owner. */
static void
test_stop_within_a_change(void **state)
{
	static struct call last;
	struct caller c;
	struct tunnel t;

	(void)state;
	bed_start(&t);
	call_begin(&t, &last, false);
	use_up(&t);
	call_end(&last);
	call_begin(&t, &last, false);
	workers_bed_hold();
	assert_int_equal(bed_ask(&t, &c, "echo:1", false), 0);
	for (int i = 0; i < 20; i++)
		patience_turn(loop);
	workers_bed_release();
	while (far_ends(&t) < 2) /* the owner's loop takes no post */
		usleep(1000);
	bed_end(&t);
	session_workers_free(&bed_workers);
	until(c.reset != 0 && last.caller.reset != 0 && last.target == NULL);
}

#define FROM_OWNER(test)                                                                           \
	{                                                                                          \
#		test, test, from_owner, bed_end_workers, NULL                                     \
	}
#define FROM_BOTH(test)                                                                            \
	FROM_OWNER(test),                                                                          \
	{                                                                                          \
#		test " from nodes", test, from_nodes, bed_end_workers, NULL                       \
	}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		FROM_BOTH(test_open_calls_go_on),
		FROM_BOTH(test_pair_without_calls),
		FROM_BOTH(test_dials_go_on),
		FROM_OWNER(test_sockets_of_two_pairs),
		FROM_OWNER(test_datagrams),
		FROM_BOTH(test_stop),
		FROM_BOTH(test_stop_within_a_change),
	};

	return cmocka_run_group_tests(tests, workers_bed_make, workers_bed_free);
}
