/* Two streams of datagrams that are joined: what one end puts into one comes out of the other, or
 * is dropped. */
#include "tunnel/udp/stream_join.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/tunnel/h2/tunnel_bed.h"
#include "tunnel/udp/dgram.h"

struct tip { /* of one of the two, where datagrams come from and go to */
	struct stream *st;
	struct dgram_reader reader;
	unsigned status, code;
	size_t got, bytes;
};

struct rig {
	struct bed b; /* first: take() gets the rig by it */
	struct tip tips[2];
	struct stream *taken[2];
	unsigned n_taken;
	struct rate rate;
	struct stream_join join;
	struct relay_report report;
	bool ended;
};

static bool
take(struct bed *b, struct stream *st)
{
	static const struct stream_events none = {0};
	struct rig *r = (struct rig *)b;

	stream_accept(st, &none, NULL);
	stream_answer(st, 200, "");
	r->taken[r->n_taken++] = st;
	return true;
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)reason;
	((struct tip *)arg)->status = status;
}

static void
on_readable(void *arg)
{
	struct tip *t = arg;
	const void *data;
	size_t n;

	while (dgram_get(&t->reader, t->st, &data, &n) > 0) {
		t->got++;
		t->bytes += n;
	}
}

static void
on_writable(void *arg)
{
	(void)arg;
}

static void
on_reset(void *arg, unsigned code)
{
	((struct tip *)arg)->code = code;
}

static const struct stream_events tip_events = {on_answered, on_readable, on_writable, on_reset};

static void
on_ended(void *arg, const struct relay_report *report)
{
	struct rig *r = arg;

	r->report = *report;
	r->ended = true;
	stream_join_fini(&r->join);
}

static void
start(struct rig *r, uint64_t per_s)
{
	const struct stream_request request = {.authority = "node:53", .udp = true};

	memset(r, 0, sizeof *r);
	r->rate.per_s = per_s;
	bed_init(&r->b, false);
	r->b.take = take;
	for (int i = 0; i < 2; i++) {
		struct tip *t = &r->tips[i];
		int rc;

		bed_until(&r->b,
			(rc = session_open(r->b.near, &request, &tip_events, t, &t->st)) !=
				-EINPROGRESS);
		assert_int_equal(rc, 0);
		bed_until(&r->b, t->status == 200);
	}
	stream_join_init(&r->join,
		&(struct relay_setup){
			.loop = r->b.loop,
			.stream = r->taken[0],
			.rates = {NULL, per_s > 0 ? &r->rate : NULL},
			.ended = on_ended,
			.arg = r,
		},
		r->taken[1]);
}

static void
stop(struct rig *r)
{
	for (int i = 0; i < 2; i++) {
		stream_close(&r->tips[i].st, STREAM_CANCELLED);
		dgram_reader_fini(&r->tips[i].reader);
	}
	bed_until(&r->b, r->ended);
	assert_null(r->join.couple);
	bed_fini(&r->b);
}

static void
both_ways_and_whole(void **state)
{
	static const size_t sizes[] = {0, 1, 1400, 60000, 0};
	static char data[DATAGRAM_MAX];
	struct rig r;

	(void)state;
	start(&r, 0);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		for (int from = 0; from < 2; from++) {
			struct tip *to = &r.tips[1 - from];
			size_t before = to->bytes;

			assert_true(dgram_put(r.tips[from].st, data, sizes[i]));
			bed_until(&r.b, to->got == i + 1);
			assert_int_equal(to->bytes - before, sizes[i]);
		}
	stop(&r);
	assert_int_equal(r.report.to_other, 61401);
	assert_int_equal(r.report.to_stream, 61401);
	assert_string_equal(r.report.why, "done");
}

/* Beyond it nothing waits. */
static void
a_rate_drops(void **state)
{
	static const char data[1400];
	struct rig r;

	(void)state;
	start(&r, 1);
	for (int i = 0; i < 40; i++) {
		assert_true(dgram_put(r.tips[0].st, data, sizeof data));
		loop_turn(r.b.loop);
	}
	assert_true(dgram_put(r.tips[1].st, data, 1));
	stream_end(r.tips[0].st);
	bed_until(&r.b, r.ended);
	assert_in_range(r.report.to_other / sizeof data, 1, 20); /* the burst */
	assert_true(r.tips[1].bytes <= r.report.to_other);
	stop(&r);
}

static void
that_nobody_listens_is_passed_on(void **state)
{
	struct rig r;

	(void)state;
	start(&r, 0);
	stream_close(&r.tips[1].st, STREAM_BROKEN);
	bed_until(&r.b, r.tips[0].code != 0);
	assert_int_equal(r.tips[0].code, STREAM_BROKEN);
	assert_string_equal(r.report.why, "port unreachable");
	stop(&r);
}

static void
who_goes_takes_the_other_along(void **state)
{
	struct rig r;

	(void)state;
	start(&r, 0);
	stream_close(&r.tips[0].st, STREAM_CANCELLED);
	bed_until(&r.b, r.tips[1].code != 0);
	assert_int_equal(r.tips[1].code, STREAM_CANCELLED);
	stop(&r);
}

static void
it_is_broken_off(void **state)
{
	struct rig r;

	(void)state;
	start(&r, 0);
	stream_join_break(&r.join, "the rules have changed");
	stream_join_break(&r.join, "again");
	assert_false(r.ended);
	bed_until(&r.b, r.ended && r.tips[0].code != 0 && r.tips[1].code != 0);
	assert_string_equal(r.report.why, "the rules have changed");
	stop(&r);
}

static void
what_is_no_capsule_ends_it(void **state)
{
	struct rig r;

	(void)state;
	start(&r, 0);
	stream_write(r.tips[0].st, "\0\0", 2); /* a datagram without a context */
	bed_until(&r.b, r.ended);
	assert_string_equal(r.report.why, "what came is no capsules");
	stop(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways_and_whole),
		cmocka_unit_test(a_rate_drops),
		cmocka_unit_test(that_nobody_listens_is_passed_on),
		cmocka_unit_test(who_goes_takes_the_other_along),
		cmocka_unit_test(it_is_broken_off),
		cmocka_unit_test(what_is_no_capsule_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
