#include "base/core/preauth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/sock.h"
#include "tests/fake/clock.h"

/* With this seed no two of the addresses below share a counter. */
enum { SEED = 1, PLACES = 20, MANY = 40, GREEDY = 0x0a000001, OTHER = 0x0a000100 };

static struct loop *loop;
static struct preauth_conn conns[MANY];
static bool dropped[MANY];

static void
on_dropped(void *arg)
{
	*(bool *)arg = true;
}

static bool
enter(struct preauth *p, int i, uint32_t ip, uint64_t now_ms)
{
	const struct addr a = addr_ipv4(ip, (uint16_t)(1000 + i));

	conns[i] = (struct preauth_conn){.drop = on_dropped, .arg = &dropped[i]};
	dropped[i] = false;
	return preauth_enter(p, &conns[i], &a, now_ms);
}

static void
each_has_a_counter(void **state)
{
	uint16_t slots[MANY + 1];

	(void)state;
	for (uint32_t i = 0; i <= MANY; i++) {
		const struct addr a = addr_ipv4(i < MANY ? OTHER + i : GREEDY, 1);

		slots[i] = fair_share_slot_of(&a, SEED);
		for (uint32_t n = 0; n < i; n++)
			assert_int_not_equal(slots[n], slots[i]);
	}
}

static void
leave_all(struct preauth **p)
{
	for (int i = 0; i < MANY; i++)
		preauth_leave(&conns[i]);
	assert_int_equal(preauth_waiting(*p), 0);
	preauth_free(p);
	memset(conns, 0, sizeof conns);
}

/* Thousands of nodes may come from one address. Who comes from another one gets as many places as
 * it has, those of its newest connections first. */
static void
one_address_gets_what_nobody_else_wants(void **state)
{
	struct preauth *p = preauth_new(loop, PLACES, SEED);
	int i;

	(void)state;
	for (i = 0; i < PLACES; i++)
		assert_true(enter(p, i, GREEDY, 0));
	/* those before have their second */
	assert_false(enter(p, PLACES, GREEDY, PREAUTH_LEAST_MS - 1));
	assert_true(enter(p, PLACES, GREEDY, PREAUTH_LEAST_MS));
	assert_true(dropped[0]); /* the oldest */
	assert_false(dropped[1]);
	for (i = 1; i <= PLACES / 2; i++) {
		assert_true(enter(p, PLACES + i, OTHER, PREAUTH_LEAST_MS));
		assert_true(dropped[PLACES + 1 - i]);
		assert_false(dropped[PLACES - i]);
	}
	assert_false(enter(p, PLACES + i, OTHER, PREAUTH_LEAST_MS)); /* both have a half */
	assert_int_equal(preauth_waiting(p), PLACES);
	preauth_leave(&conns[1]);
	preauth_leave(&conns[1]);
	assert_int_equal(preauth_waiting(p), PLACES - 1);
	leave_all(&p);
}

/* However many addresses have filled it: a newcomer gets in, at the cost of whoever has most. */
static void
newcomers_get_in(void **state)
{
	struct preauth *p = preauth_new(loop, PLACES, SEED);
	int i = 0;

	(void)state;
	while (i < 10)
		assert_true(enter(p, i++, GREEDY, 0));
	for (uint32_t ip = OTHER; i < 25; ip++, i++)
		assert_true(enter(p, i, ip, 0));
	assert_int_equal(preauth_waiting(p), PLACES);
	for (int n = 0; n < 25; n++)
		assert_int_equal(dropped[n], n >= 5 && n < 10);
	leave_all(&p);
}

/* Many addresses with one each: those that came first go, but not within their first second. */
static void
a_storm_of_newcomers(void **state)
{
	struct preauth *p = preauth_new(loop, PLACES, SEED);
	int in = 0;

	(void)state;
	for (int i = 0; i < MANY; i++)
		in += enter(p, i, OTHER + (uint32_t)i, 0);
	assert_int_equal(in, PLACES);
	for (int i = 0; i < in; i++)
		assert_false(dropped[i]);
	preauth_leave(&conns[MANY - 1]);
	assert_true(enter(p, MANY - 1, GREEDY, PREAUTH_LEAST_MS));
	assert_true(dropped[0]);
	leave_all(&p);
}

static void
without_bounds(void **state)
{
	struct metrics m;
	struct preauth *p = preauth_new(loop, 0, SEED);

	(void)state;
	assert_true(enter(NULL, 0, GREEDY, 0));
	assert_false(enter(p, 1, GREEDY, 0));
	metrics_init(&m);
	preauth_metrics(p, &m);
	assert_non_null(strstr(buf_str(&m.out),
		"edgeway_hub_unauthenticated_refused_total{outcome=\"refused\"} 1\n"));
	metrics_fini(&m);
	leave_all(&p);
}

static void
from_texts(void **state)
{
	char text[ADDR_TEXT_MAX];
	struct addr a = preauth_from(-1, "via:192.0.2.1:55");

	(void)state;
	assert_string_equal(addr_text(&a, text), "192.0.2.1:55");
	a = preauth_from(-1, "[2001:db8::1]:55");
	assert_string_equal(addr_text(&a, text), "[2001:db8::1]:55");
	assert_int_equal(preauth_from(-1, "?").sa.sa_family, AF_UNSPEC);
	assert_int_equal(preauth_from(-1, NULL).sa.sa_family, AF_UNSPEC);
}

static void
from_sockets(void **state)
{
	struct addr a = addr_ipv4(INADDR_LOOPBACK, 0);
	auto_fd int listener = -1, fd = -1;
	char text[ADDR_TEXT_MAX], want[ADDR_TEXT_MAX];

	(void)state;
	assert_int_equal(sock_listen(&a, 0, &listener, NULL), 0);
	assert_int_equal(getsockname(listener, &a.sa, &a.len), 0);
	assert_int_equal(sock_connect(&a, 0, &fd), 0);
	addr_text(&a, want);
	a = preauth_from(fd, NULL);
	assert_string_equal(addr_text(&a, text), want);
}

/* --- steps ---------------------------------------------------------------------------------- */

static int order[MANY], stepped;

static void
on_step(void *arg)
{
	order[stepped++] = (int)((bool *)arg - dropped);
}

/* Ten connections of one address want a step each, then one of another address: it waits for one of
 * theirs and not for ten. */
static void
steps_go_round(void **state)
{
	struct preauth *p = preauth_new(loop, MANY, SEED);

	(void)state;
	stepped = 0;
	for (int i = 0; i < 11; i++) {
		assert_true(enter(p, i, i < 10 ? GREEDY : OTHER, 0));
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	assert_int_equal(stepped, 0); /* never from within */
	loop_turn(loop);
	assert_int_equal(stepped, 1); /* and then others have the loop's turn */
	loop_turn(loop);
	assert_int_equal(stepped, 2);
	assert_int_equal(order[0], 0);
	assert_int_equal(order[1], 10);
	/* Its second belongs to the round of its first. */
	assert_true(preauth_step(&conns[10], on_step, &dropped[10]));
	preauth_leave(&conns[4]);
	preauth_cancel(&conns[5]);
	while (stepped < 10)
		loop_turn(loop);
	assert_int_equal(order[2], 10);
	for (int i = 0; i < stepped; i++)
		assert_true(order[i] != 4 && order[i] != 5);
	loop_turn(loop);
	assert_int_equal(stepped, 10);
	assert_false(preauth_step(&conns[4], on_step, NULL)); /* without a place nobody waits */
	leave_all(&p);
}

/* Behind one address ten connections wait and go, the first of them first: who comes from there
 * later waits for no round of theirs. */
static void
steps_of_those_that_went(void **state)
{
	struct preauth *p = preauth_new(loop, MANY, SEED);

	(void)state;
	stepped = 0;
	for (int i = 0; i < 12; i++) {
		assert_true(enter(p, i, i == 0 ? OTHER : GREEDY, 0));
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	for (int i = 1; i < 10; i++)
		preauth_leave(&conns[i]); /* 10 and 11 have their rounds */
	for (int i = 12; i < 16; i++) {
		assert_true(enter(p, i, i == 15 ? GREEDY : OTHER, 0));
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	while (stepped < 7)
		loop_turn(loop);
	for (int i = 0; i < 7; i++)
		assert_int_equal(order[i], ((const int[]){0, 10, 12, 11, 13, 15, 14})[i]);
	leave_all(&p);
}

/* Thousands of nodes behind one address give up, the first of them first, and each leaves at once:
 * with a walk over all behind it, this would take minutes. */
static void
steps_of_thousands_that_went(void **state)
{
	enum { N = 200000 };
	const struct addr from = addr_ipv4(GREEDY, 1);
	struct preauth *p = preauth_new(loop, 2 * N + 2, SEED);
	struct preauth_conn *all = xcalloc(N, sizeof *all);

	(void)state;
	alarm(60);
	stepped = 0;
	for (int i = 0; i < N; i++) {
		assert_true(preauth_enter(p, &all[i], &from, 0));
		assert_true(preauth_step(&all[i], on_step, &dropped[1]));
	}
	assert_true(enter(p, 0, OTHER, 0));
	assert_true(preauth_step(&conns[0], on_step, &dropped[0]));
	for (int i = 0; i < N - 1; i++)
		preauth_leave(&all[i]);
	while (stepped < 2)
		loop_turn(loop);
	assert_int_equal(order[0], 1);
	assert_int_equal(order[1], 0);
	preauth_leave(&all[N - 1]);
	free(all);
	leave_all(&p);
	alarm(0);
}

/* Each later one of its client takes the turn of the one before it. */
static void
steps_move_up(void **state)
{
	struct preauth *p = preauth_new(loop, MANY, SEED);

	(void)state;
	stepped = 0;
	for (int i = 0; i < 6; i++) {
		assert_true(enter(p, i, i % 2 == 0 ? GREEDY : OTHER, 0));
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	preauth_leave(&conns[0]);
	while (stepped < 5)
		loop_turn(loop);
	for (int i = 0; i < 5; i++)
		assert_int_equal(order[i], ((const int[]){2, 1, 4, 3, 5})[i]);
	leave_all(&p);
}

/* Second steps come before first ones, as they were asked for. */
static void
second_steps_in_order(void **state)
{
	struct preauth *p = preauth_new(loop, MANY, SEED);

	(void)state;
	stepped = 0;
	for (int i = 0; i < 4; i++) {
		assert_true(enter(p, i, OTHER + (uint32_t)i, 0));
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	while (stepped < 3)
		loop_turn(loop);
	for (int i = 2; i >= 0; i--)
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	while (stepped < 7)
		loop_turn(loop);
	for (int i = 0; i < 7; i++)
		assert_int_equal(order[i], ((const int[]){0, 1, 2, 2, 1, 0, 3})[i]);
	leave_all(&p);
}

/* A connection's second step does not wait for all that its address has begun since, its third
 * does. */
static void
steps_of_one_handshake(void **state)
{
	struct preauth *p = preauth_new(loop, MANY, SEED);

	(void)state;
	stepped = 0;
	for (int i = 0; i < 5; i++) {
		assert_true(enter(p, i, GREEDY, 0));
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	for (int i = 0; i < 2; i++) {
		loop_turn(loop);
		assert_true(preauth_step(&conns[0], on_step, &dropped[0]));
	}
	preauth_cancel(&conns[0]);
	assert_true(preauth_step(&conns[0], on_step, &dropped[0]));
	while (stepped < 7)
		loop_turn(loop);
	for (int i = 0; i < 7; i++)
		assert_int_equal(order[i], ((const int[]){0, 0, 1, 2, 3, 4, 0})[i]);
	leave_all(&p);
}

/* Who comes after a long storm does not pay for the rounds that have been. */
static void
steps_after_a_storm(void **state)
{
	struct preauth *p = preauth_new(loop, MANY, SEED);

	(void)state;
	stepped = 0;
	assert_true(enter(p, 0, GREEDY, 0));
	for (int i = 0; i < 10; i++) {
		assert_true(preauth_step(&conns[0], on_step, &dropped[0]));
		loop_turn(loop);
	}
	assert_int_equal(stepped, 10);
	for (int i = 1; i < 10; i++) {
		assert_true(enter(p, i, OTHER, 0));
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	assert_true(preauth_step(&conns[0], on_step, &dropped[0]));
	while (stepped < 13)
		loop_turn(loop);
	assert_int_equal(order[10], 1);
	assert_int_equal(order[11], 0);
	leave_all(&p);
}

/* Of one address with all the places in use, those that wait for a step keep them, however
 * old they are. */
static void
waiting_is_not_dropped(void **state)
{
	struct preauth *p = preauth_new(loop, PLACES, SEED);

	(void)state;
	stepped = 0;
	for (int i = 0; i < PLACES; i++) {
		assert_true(enter(p, i, GREEDY, 0));
		if (i != 3)
			assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	assert_true(enter(p, 20, GREEDY, 60 * 1000));
	assert_true(dropped[3]); /* the only one that does not wait */
	assert_true(preauth_step(&conns[20], on_step, &dropped[20]));
	assert_false(enter(p, 21, GREEDY, 120 * 1000));
	for (int i = 0; i < PLACES; i++)
		assert_int_equal(dropped[i], i == 3);
	leave_all(&p);
}

/* Nobody looks far for one: each connection of a flood would cost a walk over all places. */
static void
few_are_looked_at(void **state)
{
	enum { N = 200 };
	const struct addr from = addr_ipv4(GREEDY, 1);
	struct preauth *p = preauth_new(loop, N, SEED);
	struct preauth_conn *all = xcalloc(N, sizeof *all), late = {0};

	(void)state;
	stepped = 0;
	for (int i = 0; i < N; i++) {
		assert_true(preauth_enter(p, &all[i], &from, 0));
		if (i < N - 1)
			assert_true(preauth_step(&all[i], on_step, &dropped[1]));
	}
	assert_false(preauth_enter(p, &late, &from, 60 * 1000));
	for (int i = 0; i < N; i++)
		preauth_leave(&all[i]);
	free(all);
	leave_all(&p);
}

/* With 500 ms a step (a handshake on a machine with other work), as many are let in as finish in
 * PREAUTH_STEP_MS; an address with none waiting is let in although the others' queue is full. */
static void
as_many_as_finish(void **state)
{
	struct preauth *p = preauth_new(loop, 4 * MANY, SEED);
	int n = 0;

	(void)state;
	stepped = 0;
	for (int i = 0; i < 20; i++) {
		assert_true(enter(p, i, GREEDY, 0));
		assert_false(preauth_turns_away(&conns[i]));
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	while (stepped < 20) {
		clock_pass(500 * 1000);
		loop_turn(loop);
	}
	for (int i = 0; i < 20; i++)
		preauth_leave(&conns[i]);
	while (n < 30) {
		assert_true(enter(p, n, GREEDY, 0));
		if (preauth_turns_away(&conns[n]))
			break;
		assert_true(preauth_step(&conns[n], on_step, &dropped[n]));
		n++;
	}
	assert_in_range(n, 5, 20);
	assert_true(enter(p, 30, OTHER, 0));
	assert_false(preauth_turns_away(&conns[30]));
	for (int i = 0; i <= n; i++)
		preauth_leave(&conns[i]);
	/* And as many addresses as finish, too. What has begun is never turned away. */
	for (int i = 0; i < n; i++) {
		assert_true(enter(p, i, OTHER + 1 + (uint32_t)i, 0));
		assert_false(preauth_turns_away(&conns[i]));
		assert_true(preauth_step(&conns[i], on_step, &dropped[i]));
	}
	assert_true(enter(p, n, GREEDY, 0));
	assert_true(preauth_turns_away(&conns[n]));
	assert_false(preauth_turns_away(&conns[0]));
	conns[n].n_steps = 1;
	assert_false(preauth_turns_away(&conns[n]));
	preauth_leave(&conns[n]);
	assert_false(preauth_turns_away(&conns[n]));
	leave_all(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_a_counter),
		cmocka_unit_test(one_address_gets_what_nobody_else_wants),
		cmocka_unit_test(newcomers_get_in),
		cmocka_unit_test(a_storm_of_newcomers),
		cmocka_unit_test(without_bounds),
		cmocka_unit_test(from_texts),
		cmocka_unit_test(from_sockets),
		cmocka_unit_test(steps_go_round),
		cmocka_unit_test(steps_of_those_that_went),
		cmocka_unit_test(steps_of_thousands_that_went),
		cmocka_unit_test(steps_move_up),
		cmocka_unit_test(second_steps_in_order),
		cmocka_unit_test(steps_of_one_handshake),
		cmocka_unit_test(steps_after_a_storm),
		cmocka_unit_test(waiting_is_not_dropped),
		cmocka_unit_test(few_are_looked_at),
		cmocka_unit_test(as_many_as_finish),
	};
	int failed;

	if (loop_new(&loop, NULL) < 0)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	loop_free(&loop);
	return failed;
}
