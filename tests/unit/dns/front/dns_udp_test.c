/* dns/front/udp on 127.0.0.1 and ::1: batches, groups of answers, gathering; dns/front/gso,
 * dns/front/batching and dns/forward/limit alone. */
#include "dns/front/udp.h"

#include <linux/sock_diag.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/sock.h"
#include "dns/forward/limit.h"
#include "dns/front/batching.h"
#include "dns/front/gso.h"
#include "tests/fake/clock.h"

enum { CLIENTS = 3, ANSWER_MAX = 256 };

struct world {
	struct loop *loop;
	struct udp *udp;
	struct udp_counters count;
	struct addr at;
	int fd; /* udp's */
	int client[CLIENTS];
	bool silent;
};

/* A query says how long its answer is to be; the answer repeats the first two octets. */
static size_t
on_query(void *arg, const struct udp_from *from, const uint8_t *m, size_t len, uint8_t *out)
{
	struct world *w = arg;

	assert_int_equal(from->client->sa.sa_family, w->at.sa.sa_family);
	assert_int_equal(from->interface, if_nametoindex("lo"));
	assert_int_equal(len, 3);
	memset(out, m[2], m[2]);
	memcpy(out, m, 2);
	return w->silent ? 0 : m[2];
}

static int
setup_at(void **state, const struct addr *at)
{
	struct world *w = xcalloc(1, sizeof *w);

	assert_int_equal(loop_new(&w->loop, NULL), 0);
	w->at = *at;
	assert_int_equal(sock_udp(&w->at, 0, &w->fd, NULL), 0);
	assert_int_equal(getsockname(w->fd, &w->at.sa, &w->at.len), 0);
	udp_open(&w->udp, w->loop, w->fd, &w->count, on_query, w);
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct addr any =
			at->sa.sa_family == AF_INET ? addr_ipv4(INADDR_LOOPBACK + i, 0) : *at;

		assert_int_equal(sock_udp(&any, 0, &w->client[i], NULL), 0);
		assert_int_equal(connect(w->client[i], &w->at.sa, w->at.len), 0);
	}
	loop_turn(w->loop);
	*state = w;
	return 0;
}

static int
setup(void **state)
{
	const struct addr at = addr_ipv4(INADDR_LOOPBACK, 0);

	return setup_at(state, &at);
}

/* Clients differ by port alone. */
static int
setup6(void **state)
{
	const struct addr at = addr_of(&in6addr_loopback, 0);

	return setup_at(state, &at);
}

static int
teardown(void **state)
{
	struct world *w = *state;

	udp_close(&w->udp);
	udp_close(&w->udp);
	loop_free(&w->loop);
	for (unsigned i = 0; i < CLIENTS; i++)
		close(w->client[i]);
	free(w);
	return 0;
}

static void
ask(struct world *w, unsigned client, unsigned id, uint8_t len)
{
	const uint8_t m[3] = {(uint8_t)(id >> 8), (uint8_t)id, len};

	assert_int_equal(send(w->client[client], m, sizeof m, 0), sizeof m);
}

/* The id of the next answer, which must be whole and alone in its datagram; -1: none. */
static int
receive(struct world *w, unsigned client)
{
	uint8_t m[4 * ANSWER_MAX];
	ssize_t n = recv(w->client[client], m, sizeof m, MSG_DONTWAIT);

	if (n < 0)
		return -1;
	assert_in_range(n, 3, ANSWER_MAX - 1);
	for (ssize_t i = 2; i < n; i++)
		assert_int_equal(m[i], n);
	return m[0] << 8 | m[1];
}

static void
a_single_query_is_answered_in_the_same_turn(void **state)
{
	struct world *w = *state;

	for (unsigned i = 0; i < 3; i++) {
		ask(w, 0, i, 100);
		loop_turn(w->loop);
		assert_int_equal(receive(w, 0), i);
		usleep(2000);
	}
	assert_int_equal(w->count.reads, 3);
	assert_int_equal(w->count.received, 3);
}

/* Answers of equal and of mixed lengths, to clients in turn: everybody gets his own, each in a
 * datagram. */
static void
a_batch_reaches_each_client_as_it_should(void **state)
{
	struct world *w = *state;
	static bool seen[CLIENTS][200];
	unsigned left = CLIENTS * 200;

	memset(seen, 0, sizeof seen);

	for (unsigned id = 0; id < 200; id++) {
		for (unsigned c = 0; c < CLIENTS; c++)
			ask(w, c, id, id < 100 ? 90 : (uint8_t)(3 + id));
	}
	for (unsigned turn = 0; turn < 5000 && left > 0; turn++) {
		loop_turn(w->loop);
		for (unsigned c = 0; c < CLIENTS; c++) {
			int id = receive(w, c);

			if (id < 0)
				continue;
			assert_in_range(id, 0, 199);
			assert_false(seen[c][id]);
			seen[c][id] = true;
			left--;
		}
	}
	assert_int_equal(left, 0);
	assert_int_equal(w->count.received, CLIENTS * 200);
	assert_in_range(w->count.reads, CLIENTS * 200 / 32, CLIENTS * 200 / 8);
	assert_int_equal(w->count.send_errors, 0);
}

/* The kernel refuses to cut a datagram that bears no checksum. */
static void
answers_go_one_by_one_where_groups_are_refused(void **state)
{
	struct world *w = *state;
	int on = 1;

	assert_int_equal(setsockopt(w->fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
	a_batch_reaches_each_client_as_it_should(state);
}

static void
gathering_begins_with_a_rush_and_ends_with_it(void **state)
{
	struct world *w = *state;
	uint64_t asked = 0, before;

	while (w->count.gathering == 0) {
		assert_true(asked < 1000000);
		for (unsigned i = 0; i < 10; i++)
			ask(w, 0, i, 50);
		asked += 10;
		loop_turn(w->loop);
		clock_pass(200);
		while (receive(w, 0) >= 0)
			;
	}
	/* The tick reads now. */
	ask(w, 1, 7, 50);
	for (unsigned turn = 0; turn < 5000 && receive(w, 1) < 0; turn++) {
		loop_turn(w->loop);
		usleep(50);
	}
	for (unsigned turn = 0; turn < 5000 && w->count.gathering; turn++) {
		loop_turn(w->loop);
		usleep(1000);
	}
	assert_int_equal(w->count.gathering, 0);
	assert_int_equal(w->count.received, asked + 1);
	before = w->count.reads;
	ask(w, 2, 8, 50);
	loop_turn(w->loop);
	assert_int_equal(receive(w, 2), 8);
	assert_int_equal(w->count.reads, before + 1);
}

static void
no_answer_is_no_datagram(void **state)
{
	struct world *w = *state;
	struct dns_client to;
	socklen_t len = sizeof to;

	w->silent = true;
	ask(w, 0, 1, 50);
	loop_turn(w->loop);
	assert_int_equal(receive(w, 0), -1);
	assert_int_equal(w->count.received, 1);
	/* and later one */
	getsockname(w->client[0], &to.sa, &len);
	udp_send(w->udp, &to, (const uint8_t *)"\0\11\3", 3);
	assert_int_equal(receive(w, 0), 9);
}

static bool
is_nearly_full(int fd)
{
	uint32_t memory[SK_MEMINFO_VARS];
	socklen_t len = sizeof memory;

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &len), 0);
	return memory[SK_MEMINFO_RMEM_ALLOC] > memory[SK_MEMINFO_RCVBUF] / 8 * 7;
}

/* The queue is full of one client's queries; another's single one, behind them all, is answered. */
static void
a_flood_costs_its_sender_answers(void **state)
{
	struct world *w = *state;

	for (unsigned round = 0; round < 50 && w->count.limited == 0; round++) {
		uint64_t asked = w->count.received;

		for (; !is_nearly_full(w->fd); asked++)
			ask(w, 0, 1, 50);
		ask(w, 1, round, 50);
		for (unsigned turn = 0; turn < 100000 && w->count.received <= asked; turn++)
			loop_turn(w->loop);
		assert_int_equal(receive(w, 1), round);
		while (receive(w, 0) >= 0)
			;
		if (asked < 2 * LIMIT_BURST)
			skip(); /* not allowed a longer queue */
	}
	assert_true(w->count.limited > 0);
	/* and when it is over, there is no limit */
	for (unsigned i = 0; i < 30; i++) {
		ask(w, 0, i, 50);
		for (unsigned turn = 0; receive(w, 0) < 0; turn++) {
			assert_true(turn < 100000);
			loop_turn(w->loop);
		}
	}
}

/* --- groups --------------------------------------------------------------------------------- */

static struct gso_item
item(const char *client, uint16_t port, uint16_t len, unsigned slot)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, client, port, NULL), 0);
	return (struct gso_item){gso_key(a.in.sin_addr.s_addr, a.in.sin_port, len), slot};
}

static void
groups_are_of_one_client_and_one_length_but_for_the_last(void **state)
{
	struct gso_item items[] = {
		item("172.17.0.2", 1000, 120, 0),
		item("172.17.0.3", 1000, 120, 1),
		item("172.17.0.2", 1000, 90, 2),
		item("172.17.0.2", 1001, 120, 3),
		item("172.17.0.2", 1000, 120, 4),
		item("172.17.0.2", 1000, 80, 5),
		item("172.17.0.2", 1000, 70, 6),
	};
	static const struct {
		size_t k;
		unsigned slots[4];
	} want[] = {{3, {0, 4, 2}}, {2, {5, 6}}, {1, {3}}, {1, {1}}};
	unsigned found = 0;

	(void)state;
	gso_sort(items, ARRAY_LEN(items));
	for (size_t at = 0, k; at < ARRAY_LEN(items); at += k) {
		unsigned i = 0;

		k = gso_next(items + at, ARRAY_LEN(items) - at);
		while (want[i].slots[0] != items[at].slot)
			assert_true(++i < ARRAY_LEN(want));
		assert_int_equal(k, want[i].k);
		for (size_t n = 0; n < k; n++)
			assert_int_equal(items[at + n].slot, want[i].slots[n]);
		found++;
	}
	assert_int_equal(found, ARRAY_LEN(want));
}

/* --- pace ----------------------------------------------------------------------------------- */

enum { START_MS = 1000000, HIGH = 2 * BATCHING_BUSY_PER_MS };

/* `ms` at so many a millisecond; what it says at the end. */
static bool
run(struct batching *p, uint64_t *now_ms, unsigned ms, unsigned per_ms)
{
	bool gathering = false;

	for (unsigned i = 0; i < ms; i++) {
		for (unsigned k = 1; k < per_ms; k++)
			batching_note(p, *now_ms, 1);
		gathering = batching_note(p, ++*now_ms, 1);
	}
	return gathering;
}

static void
few_queries_never_gather(void **state)
{
	struct batching p = {0};
	uint64_t now = START_MS;

	(void)state;
	assert_false(batching_note(&p, now, 1));
	assert_false(run(&p, &now, 10000, BATCHING_BUSY_PER_MS - 1));
	/* nor does a single rush after a long rest */
	now += 10000;
	assert_false(batching_note(&p, now, 1000));
}

static void
many_gather_for_as_long_as_they_come(void **state)
{
	struct batching p = {0};
	uint64_t now = START_MS;

	(void)state;
	batching_note(&p, now, 0);
	assert_false(run(&p, &now, BATCHING_WINDOW_MS - 1, HIGH));
	assert_true(run(&p, &now, 1, HIGH));
	assert_true(run(&p, &now, 5000, HIGH));
	assert_true(run(&p, &now, 5000, 2 * HIGH));
	assert_true(run(&p, &now, 5000, 2 * HIGH * 9 / 10));
	assert_false(run(&p, &now, BATCHING_WINDOW_MS, BATCHING_BUSY_PER_MS / 2 - 1));
	assert_true(run(&p, &now, BATCHING_WINDOW_MS, HIGH)); /* they come again: at once */
}

/* Other programs keep us from reading: nobody need wait for more. */
static void
many_a_read_do_not_gather(void **state)
{
	struct batching p = {0};
	uint64_t now = START_MS;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_false(batching_note(&p, ++now, HIGH));
	assert_true(run(&p, &now, 2 * BATCHING_WINDOW_MS, HIGH));
}

/* Clients that ask half as much while they have to wait. */
static unsigned
time_gathering(struct batching *p, uint64_t *now_ms, unsigned ms)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ms; i++)
		n += run(p, now_ms, 1, p->gathering ? HIGH : 2 * HIGH);
	return n;
}

static void
what_costs_throughput_is_put_off_ever_longer(void **state)
{
	struct batching p = {0};
	uint64_t now = START_MS;
	unsigned first, later;

	(void)state;
	batching_note(&p, now, 0);
	first = time_gathering(&p, &now, 1000);
	assert_in_range(first, 2 * BATCHING_WINDOW_MS, 500);
	time_gathering(&p, &now, 10 * BATCHING_PUT_OFF_MAX_MS);
	later = time_gathering(&p, &now, 10 * BATCHING_PUT_OFF_MAX_MS);
	assert_in_range(later, BATCHING_WINDOW_MS, 11 * BATCHING_WINDOW_MS);
	/* other clients: it is tried again, and stays */
	assert_true(run(&p, &now, 2 * BATCHING_PUT_OFF_MAX_MS, HIGH));
}

/* Other programs take the CPUs for a while: gathering is not to blame. */
static void
a_short_lull_ends_nothing(void **state)
{
	struct batching p = {0};
	uint64_t now = START_MS;

	(void)state;
	batching_note(&p, now, 0);
	run(&p, &now, 1000, 2 * HIGH);
	for (unsigned i = 0; i < 20; i++) {
		assert_true(run(&p, &now, BATCHING_WINDOW_MS, HIGH));
		assert_true(run(&p, &now, 5 * BATCHING_WINDOW_MS, 2 * HIGH));
	}
}

static void
what_was_proven_is_tried_again_soon(void **state)
{
	struct batching p = {0};
	uint64_t now = START_MS;
	unsigned rate = 2 * HIGH;

	(void)state;
	batching_note(&p, now, 0);
	run(&p, &now, 1000, rate);
	for (unsigned i = 0; i < 10; i++) {
		rate = rate == HIGH ? 2 * HIGH : HIGH; /* clients come and go */
		run(&p, &now, 11 * BATCHING_WINDOW_MS, rate);
		assert_true(p.gathering && p.put_off_ms <= BATCHING_PUT_OFF_MIN_MS);
	}
}

/* --- limit ---------------------------------------------------------------------------------- */

static void
each_client_has_a_limit_of_its_own(void **state)
{
	static struct limit l;
	uint64_t now = START_MS;
	unsigned passed = 0;

	(void)state;
	memset(&l, 0, sizeof l);
	for (unsigned i = 0; i < LIMIT_BURST; i++)
		assert_true(limit_pass(&l, 1, now));
	assert_false(limit_pass(&l, 1, now));
	assert_true(limit_pass(&l, 2, now));
	for (unsigned i = 0; i < 1000 * 100; i++)
		passed += limit_pass(&l, 1, now + i / 100);
	assert_int_equal(passed, 999 * LIMIT_PER_MS);
	now += 1000;
	/* a table full of others forgets, and stays within its bounds */
	for (uint32_t a = 3; a < 100000; a++)
		assert_true(limit_pass(&l, a, ++now));
	assert_true(limit_pass(&l, 1, now));
}

static uint64_t
key_of(const char *text)
{
	struct dns_client c;
	struct addr a;

	assert_int_equal(addr_parse(&a, text, 4000, NULL), 0);
	memcpy(&c, &a, a.len);
	return dns_client_key(&c);
}

static void
a_client_is_its_whole_address(void **state)
{
	(void)state;
	assert_true(key_of("172.17.0.2") == key_of("172.17.0.2"));
	assert_true(key_of("172.17.0.2") != key_of("172.17.0.3"));
	assert_true(key_of("fd00:1::2") == key_of("fd00:1::2"));
	/* two pods of one bridge */
	assert_true(key_of("fd00:1::2") != key_of("fd00:1::3"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_single_query_is_answered_in_the_same_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_batch_reaches_each_client_as_it_should, setup, teardown),
		cmocka_unit_test_setup_teardown(
			answers_go_one_by_one_where_groups_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(
			gathering_begins_with_a_rush_and_ends_with_it, setup, teardown),
		cmocka_unit_test_setup_teardown(no_answer_is_no_datagram, setup, teardown),
		cmocka_unit_test_setup_teardown(a_flood_costs_its_sender_answers, setup, teardown),
		{"a_single_query_is_answered_by_ipv6", a_single_query_is_answered_in_the_same_turn,
			setup6, teardown, NULL},
		{"a_batch_reaches_each_client_by_ipv6", a_batch_reaches_each_client_as_it_should,
			setup6, teardown, NULL},
		{"no_answer_is_no_datagram_by_ipv6", no_answer_is_no_datagram, setup6, teardown,
			NULL},
		cmocka_unit_test(groups_are_of_one_client_and_one_length_but_for_the_last),
		cmocka_unit_test(each_client_has_a_limit_of_its_own),
		cmocka_unit_test(a_client_is_its_whole_address),
		cmocka_unit_test(few_queries_never_gather),
		cmocka_unit_test(many_gather_for_as_long_as_they_come),
		cmocka_unit_test(what_costs_throughput_is_put_off_ever_longer),
		cmocka_unit_test(many_a_read_do_not_gather),
		cmocka_unit_test(a_short_lull_ends_nothing),
		cmocka_unit_test(what_was_proven_is_tried_again_soon),
	};

	return cmocka_run_group_tests_name("dns_udp", tests, NULL, NULL);
}
