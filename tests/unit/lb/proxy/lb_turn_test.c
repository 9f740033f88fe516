#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lb/balance/fair_queue.h"
#include "lb/balance/shared.h"
#include "tests/unit/lb/proxy/lb_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: web\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"

enum { MANY = 1000, FLOODER = 0x7f000002, OTHER = 0x7f000003, FLOOD = 12 };

static void
clients_take_turns(void **state)
{
	static struct waiter of[3][MANY]; /* client 0 has MANY, 1 has two, 2 has one */
	struct waiter *w, *first[6];
	struct fair_queue l;

	(void)state;
	fair_queue_init(&l);
	assert_null(fair_queue_next(&l));
	for (int i = 0; i < MANY; i++)
		fair_queue_join(&l, &of[0][i], 10);
	fair_queue_join(&l, &of[0][5], 10); /* no second time */
	fair_queue_join(&l, &of[1][0], 11);
	fair_queue_join(&l, &of[1][1], 11);
	fair_queue_join(&l, &of[2][0], 12);
	assert_int_equal(l.n_lanes, 3);
	for (size_t i = 0; i < ARRAY_LEN(first); i++) {
		first[i] = fair_queue_next(&l);
		fair_queue_leave(first[i]);
	}
	assert_ptr_equal(first[0], &of[0][0]);
	assert_ptr_equal(first[1], &of[1][0]);
	assert_ptr_equal(first[2], &of[2][0]);
	assert_ptr_equal(first[3], &of[0][1]);
	assert_ptr_equal(first[4], &of[1][1]);
	assert_ptr_equal(first[5], &of[0][2]);
	assert_int_equal(l.n_lanes, 1);
	for (int i = 3; (w = fair_queue_next(&l)) != NULL; i++) {
		assert_ptr_equal(w, &of[0][i]);
		fair_queue_leave(w);
		fair_queue_leave(w);
	}
	assert_true(fair_queue_empty(&l));
}

static void
who_is_held_loses_its_turn_only(void **state)
{
	struct waiter a = {0}, b = {0};
	struct fair_queue l;

	(void)state;
	fair_queue_init(&l);
	fair_queue_join(&l, &a, 1);
	fair_queue_join(&l, &b, 2);
	for (int i = 0; i < 3; i++) {
		assert_ptr_equal(fair_queue_next(&l), &a);
		assert_ptr_equal(fair_queue_next(&l), &b);
	}
	fair_queue_leave(&a);
	assert_ptr_equal(fair_queue_next(&l), &b);
	fair_queue_leave(&b);
}

static void
a_client_has_a_share(void **state)
{
	struct shared s = {0};

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_false(shared_full(&s, FLOODER, 4));
		assert_true(shared_take(&s, FLOODER, 4));
	}
	assert_true(shared_full(&s, FLOODER, 4));
	assert_false(shared_take(&s, FLOODER, 4));
	assert_false(shared_full(&s, OTHER, 4));
	assert_true(shared_take(&s, OTHER, 4));
	assert_true(shared_full(&s, OTHER, 4));
	assert_false(shared_take(&s, OTHER, 4));
	assert_int_equal(s.in_use, 4); /* of what was refused nothing is left */
	shared_give(&s, FLOODER);
	assert_false(shared_full(&s, FLOODER, 4));
	assert_false(shared_full(&s, FLOODER, 2 + 2));
	assert_true(shared_full(&s, FLOODER, 3)); /* all of a few */
}

/* --- the proxy ------------------------------------------------------------------------------ */

static void
use(unsigned most, unsigned connect_ms)
{
	const struct service_lb options = {
		.retries = RETRIES_DEFAULT, .max_connections = most, .connect_ms = connect_ms};

	service_options(&options);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
}

/* Nobody's dials are left for the next test. */
static void
end(void)
{
	for (int i = 0; metric("edgeway_lb_connections_active ") > 0; i++) {
		assert_true(i < WAIT_MS);
		time_passes(1);
	}
	service_options(NULL);
	service_gone();
}

static void
until_waiting(uint64_t n)
{
	for (int i = 0; metric("edgeway_lb_waits_total ") < n; i++) {
		assert_true(i < WAIT_MS);
		time_passes(1);
	}
}

static void
asked(int upstream)
{
	read_until(upstream, "\r\n\r\n");
}

/* One connection to the endpoint, twelve clients' requests before another client's one: it is the
 * third that is served. */
static void
a_flood_costs_another_client_a_turn(void **state)
{
	uint64_t waits = metric("edgeway_lb_waits_total ");
	int flood[FLOOD], other, upstream;

	(void)state;
	use(1, 2500);
	for (int i = 0; i < FLOOD; i++) {
		flood[i] = client_open_as(FLOODER);
		put(flood[i], GET);
	}
	upstream = endpoint_accept(0);
	asked(upstream);
	other = client_open_as(OTHER);
	put(other, GET);
	until_waiting(waits + FLOOD);
	for (int i = 0; i < 2; i++) {
		expect_silence(other, 0);
		put(upstream, OK);
		asked(upstream);
	}
	put(upstream, OK);
	expect(other, OK);
	assert_false(endpoint_called(0, 0)); /* all over one connection, handed on */
	for (int i = 0; i < FLOOD; i++)
		close_hard(flood[i]);
	close(other);
	close(upstream);
	end();
}

/* What is left of the endpoint's connections is for others. */
static void
a_flood_does_not_take_all(void **state)
{
	int flood[FLOOD], other, backs[4];

	(void)state;
	use(4, 0);
	for (int i = 0; i < FLOOD; i++) {
		flood[i] = client_open_as(FLOODER);
		put(flood[i], GET);
	}
	for (int i = 0; i < 3; i++) {
		backs[i] = endpoint_accept(0);
		asked(backs[i]);
	}
	assert_false(endpoint_called(0, 50));
	other = client_open_as(OTHER);
	put(other, GET);
	backs[3] = endpoint_accept(0);
	asked(backs[3]);
	put(backs[3], OK);
	expect(other, OK);
	/* Who waits too long is told so. */
	for (int i = 0; i < 3; i++)
		put(backs[i], OK);
	for (int i = 0; i < FLOOD; i++)
		close_hard(flood[i]);
	for (int i = 0; i < 4; i++)
		close(backs[i]);
	close(other);
	end();
}

static void
who_waits_too_long_is_told(void **state)
{
	int holder, late[3], gone, upstream;

	(void)state;
	use(1, 100);
	holder = client_open_as(FLOODER);
	put(holder, GET);
	upstream = endpoint_accept(0);
	asked(upstream);
	gone = client_open_as(OTHER);
	put(gone, GET);
	close_hard(gone);
	for (size_t i = 0; i < ARRAY_LEN(late); i++) {
		late[i] = client_open_as(OTHER);
		put(late[i], GET);
	}
	for (size_t i = 0; i < ARRAY_LEN(late); i++) { /* those behind the first one as well */
		assert_non_null(strstr(read_until(late[i], "\n\r\n"), "HTTP/1.1 503 "));
		read_until(late[i], "edgeway.io/max-connections)\n");
	}
	put(upstream, OK);
	expect(holder, OK);
	put(late[0], GET); /* nothing is left of what waited */
	asked(upstream);
	put(upstream, OK);
	expect(late[0], OK);
	close(holder);
	for (size_t i = 0; i < ARRAY_LEN(late); i++)
		close(late[i]);
	close(upstream);
	end();
}

/* Who came first, comes first: a request does not overtake those that wait; the service that goes
 * away ends them. */
static void
the_service_goes_away(void **state)
{
	uint64_t waits = metric("edgeway_lb_waits_total ");
	int holder, waiting, upstream;

	(void)state;
	use(1, 2500);
	holder = client_open_as(FLOODER);
	put(holder, GET);
	upstream = endpoint_accept(0);
	asked(upstream);
	waiting = client_open_as(OTHER);
	put(waiting, GET);
	until_waiting(waits + 1);
	service_gone();
	put(upstream, OK);
	expect(holder, OK);
	assert_non_null(strstr(read_until(waiting, "\n\r\n"), "HTTP/1.1 50"));
	close(holder);
	close(waiting);
	close(upstream);
	end();
}

/* A relay's early bytes wait with it. */
static void
relays_wait_too(void **state)
{
	const struct service_lb options = {
		.retries = RETRIES_DEFAULT, .max_connections = 1, .connect_ms = 2500};
	int first, second, upstream;

	(void)state;
	service_options(&options);
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	first = client_open_as(FLOODER);
	upstream = endpoint_accept(0);
	put(first, "one");
	expect(upstream, "one");
	second = client_open_as(OTHER);
	put(second, "two");
	shut(second);
	assert_false(endpoint_called(0, 30));
	close(first);
	expect_eof(upstream);
	close(upstream);
	upstream = endpoint_accept(0);
	expect(upstream, "two");
	expect_eof(upstream);
	put(upstream, "three");
	close(upstream);
	expect(second, "three");
	expect_eof(second);
	close(second);
	end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients_take_turns),
		cmocka_unit_test(who_is_held_loses_its_turn_only),
		cmocka_unit_test(a_client_has_a_share),
		cmocka_unit_test(a_flood_costs_another_client_a_turn),
		cmocka_unit_test(a_flood_does_not_take_all),
		cmocka_unit_test(who_waits_too_long_is_told),
		cmocka_unit_test(the_service_goes_away),
		cmocka_unit_test(relays_wait_too),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
