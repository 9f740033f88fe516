/* Streams are the test's own; their clock is tests/fake/clock. */
#include "hub/routing/stream_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/patience.h"

struct stream {
	const struct stream_events *events;
	void *arg;
	loop_fn *fading;
	void *fading_arg;
	size_t waiting; /* bytes to read */
	bool eof, doubted, ended;
	unsigned closed; /* 0: open; else 1 + the code */
};

void
stream_use(struct stream *st, const struct stream_events *events, void *arg)
{
	st->events = events;
	st->arg = arg;
}

void
stream_on_fading(struct stream *st, loop_fn *fn, void *arg)
{
	st->fading = fn;
	st->fading_arg = arg;
}

size_t
stream_peek(struct stream *st, const void **data)
{
	*data = "x";
	return st->waiting;
}

void
stream_consume(struct stream *st, size_t n)
{
	st->waiting -= n;
}

bool
stream_eof(const struct stream *st)
{
	return st->eof && st->waiting == 0;
}

bool
stream_far_ended(const struct stream *st)
{
	return st->eof;
}

bool
stream_is_doubted(const struct stream *st)
{
	return st->doubted;
}

void
stream_end(struct stream *st)
{
	st->ended = true;
}

void
stream_close(struct stream **st, unsigned code)
{
	(*st)->closed = 1 + code;
	*st = NULL;
}

static struct loop *loop;
static struct stream_pool *pool;

static int
set_up(void **state)
{
	(void)state;
	assert_int_equal(loop_new(&loop, NULL), 0);
	pool = stream_pool_new(loop);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	stream_pool_free(&pool);
	loop_free(&loop);
	return 0;
}

static const struct stream_key key = {"192.0.2.7", "1", "default/web", "edge-1", "10.0.0.1:80", 7};

static void
give(struct stream *st, const struct stream_key *as)
{
	struct stream_use *use = stream_use_new(pool, as, "target", "hub-2");

	stream_pool_give(pool, &st, &use);
	assert_null(use);
}

static struct stream *
take(const struct stream_key *as)
{
	struct stream *st = NULL;
	struct stream_use *use = stream_pool_take(pool, as, &st);

	assert_int_equal(use != NULL, st != NULL);
	if (use != NULL) {
		assert_true(use->used);
		assert_string_equal(use->target, "target");
		assert_string_equal(use->at, "hub-2");
	}
	stream_use_free(&use);
	return st;
}

/* Whoever differs in anything gets another stream; the youngest goes first. */
static void
only_the_same_is_taken(void **state)
{
	static struct stream a, b;
	struct stream_key other;

	(void)state;
	assert_null(take(&key));
	give(&a, &key);
	give(&b, &key);
#define DIFFERS(member, value)                                                                     \
	other = key;                                                                               \
	other.member = value;                                                                      \
	assert_null(take(&other))
	DIFFERS(caller, "192.0.2.8");
	DIFFERS(hops, "2");
	DIFFERS(service, "");
	DIFFERS(node, "edge-2");
	DIFFERS(authority, "10.0.0.1:81");
	DIFFERS(epoch, 8);
	/* the same bytes, cut elsewhere */
	other = (struct stream_key){"192.0.2.7", "1default/web", "", "edge-1", "10.0.0.1:80", 7};
	assert_null(take(&other));
	assert_ptr_equal(take(&key), &b);
	assert_ptr_equal(take(&key), &a);
	assert_false(stream_pool_any(pool));
}

/* What comes on an idle stream is no response to anything. */
static void
an_idle_stream_ends(void **state)
{
	static struct stream byte, end, early, reset, fading,
		doubted; /* some are closed with the pool */

	(void)state;
	give(&byte, &key);
	byte.events->readable(byte.arg); /* of bytes that were read before */
	assert_false(byte.ended);
	byte.waiting = 1;
	byte.events->readable(byte.arg);
	assert_true(byte.ended);
	assert_null(take(&key));
	byte.eof = true;
	byte.events->readable(byte.arg);
	assert_int_equal(byte.closed, 1 + STREAM_DONE);

	give(&end, &key);
	end.eof = true;
	assert_null(take(&key)); /* its event has not been told yet */
	end.events->readable(end.arg);
	assert_int_equal(end.closed, 1 + STREAM_DONE);

	give(&early, &key);
	early.waiting = 1;
	assert_null(take(&key)); /* nor has this one's */
	early.events->readable(early.arg);
	assert_true(early.ended);

	give(&reset, &key);
	reset.events->reset(reset.arg, STREAM_LOST);
	assert_int_equal(reset.closed, 1 + STREAM_CANCELLED);

	give(&fading, &key);
	fading.fading(fading.fading_arg);
	assert_true(fading.ended);
	assert_null(take(&key));

	give(&doubted, &key);
	doubted.doubted = true;
	assert_null(take(&key));
	stream_pool_clear(pool);
	assert_true(doubted.ended);
}

/* With no end of the other side it is reset. */
static void
time_passes(void **state)
{
	struct stream st = {0}, alone = {0}, *given = &alone;
	struct stream_use *none = NULL;

	(void)state;
	stream_pool_give(pool, &given, &none);
	assert_true(alone.ended);
	assert_null(take(&key));
	give(&st, &key);
	patience_until(patience_turn(loop), st.ended);
	assert_null(take(&key));
	patience_until(patience_turn(loop), st.closed != 0);
	assert_int_equal(st.closed, 1 + STREAM_CANCELLED);
	assert_int_equal(alone.closed, 1 + STREAM_CANCELLED);
}

static void
the_oldest_makes_room(void **state)
{
	static struct stream all[STREAM_POOL_MOST + 1];
	struct stream_key one = key;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		one.epoch = 7 + i / STREAM_POOL_OF_ONE;
		give(&all[i], &one);
	}
	assert_true(all[0].ended);
	assert_false(all[1].ended);
	stream_pool_clear(pool);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		assert_true(all[i].ended);
}

/* However many targets one caller has, it takes no place from another one. */
static void
the_heaviest_caller_makes_room(void **state)
{
	static struct stream all[2 * STREAM_POOL_MOST], other[2];
	struct stream_key one = key, another = key;

	(void)state;
	another.caller = "192.0.2.8";
	give(&other[0], &another);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		one.epoch = 7 + i;
		give(&all[i], &one);
	}
	assert_false(other[0].ended);
	another.epoch = 8;
	give(&other[1], &another);
	assert_false(other[1].ended);
	assert_true(all[STREAM_POOL_MOST + 1].ended);
	assert_false(all[STREAM_POOL_MOST + 2].ended);
	assert_ptr_equal(take(&another), &other[1]);
}

/* A server is not left with more connections than its caller will use. */
static void
one_caller_keeps_some(void **state)
{
	static struct stream all[STREAM_POOL_OF_ONE + 1], other;
	struct stream_key another = key;

	(void)state;
	another.caller = "192.0.2.8";
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		give(&all[i], &key);
	give(&other, &another);
	assert_false(all[0].ended);
	assert_true(all[STREAM_POOL_OF_ONE].ended);
	assert_false(other.ended);
	assert_ptr_equal(take(&key), &all[STREAM_POOL_OF_ONE - 1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_the_same_is_taken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_idle_stream_ends, set_up, tear_down),
		cmocka_unit_test_setup_teardown(time_passes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_oldest_makes_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_heaviest_caller_makes_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_caller_keeps_some, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
