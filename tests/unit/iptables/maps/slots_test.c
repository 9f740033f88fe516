/* Which endpoints have which slots: odds, tiers, affinity that survives changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/core/sock.h"
#include "iptables/maps/slots.h"

enum { MOST = 2000 };

static struct endpoint endpoints[MOST];

/* 10.0.0.0 and following, port 53. */
static struct service_port
port_with(unsigned n)
{
	assert_true(n <= MOST);
	for (unsigned i = 0; i < n; i++) {
		endpoints[i] = (struct endpoint){.ip = ip_of_v4(0x0a000000 + i),
			.port = 53,
			.via = VIA_HOST,
			.tier = TIER_REST};
	}
	return (struct service_port){
		.port = 53, .mode = PORT_UDP, .n_endpoints = (uint16_t)n, .endpoints = endpoints};
}

static void
make(struct slots *plan, const struct service_port *p, bool by_client, slots_alive_fn *alive)
{
	slots_make(plan, p, &(struct slots_ask){.by_client = by_client, .alive = alive});
}

static unsigned
slots_of(const struct slots *p, uint32_t ip)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->n; i++)
		n += ip_to_v4(&p->slots[i].ip) == ip;
	return n;
}

static bool
has_chain(const struct slots *p)
{
	for (const uint16_t *n = slots_lengths(p->by_client); *n != 0; n++)
		if (*n == p->n)
			return true;
	return false;
}

static void
everybody_has_a_fair_share(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 128; n++) {
		struct service_port p = port_with(n);

		for (int client = 0; client < 2; client++) {
			struct slots plan;

			make(&plan, &p, client, NULL);
			assert_true(has_chain(&plan));
			assert_int_equal(plan.by_client, client && n > 1);
			if (n <= SLOTS_EXACT && !client)
				assert_int_equal(plan.n, n);
			for (unsigned i = 0; i < n; i++) {
				unsigned slots = slots_of(&plan, 0x0a000000 + i);

				assert_true(slots * n * 4 <= plan.n * 5u + 4 * n);
				assert_true(client || slots * n * 8 >= plan.n * 7u);
			}
			slots_fini(&plan);
		}
	}
}

static void
more_than_there_are_slots(void **state)
{
	struct service_port p = port_with(MOST);
	struct slots plan;

	(void)state;
	make(&plan, &p, false, NULL);
	assert_int_equal(plan.n, SLOTS_SLOTS_MAX);
	slots_fini(&plan);
}

/* Only the clients of the endpoint that goes must move. */
static void
affinity_survives_an_end(void **state)
{
	unsigned moved = 0;

	(void)state;
	for (unsigned gone = 0; gone < 8; gone++) {
		struct service_port p = port_with(8);
		struct slots before, after;

		make(&before, &p, true, NULL);
		endpoints[gone] = endpoints[7];
		p.n_endpoints = 7;
		make(&after, &p, true, NULL);
		assert_int_equal(before.n, after.n);
		for (unsigned i = 0; i < before.n; i++)
			moved += ip_to_v4(&before.slots[i].ip) != 0x0a000000 + gone &&
				ip_to_v4(&before.slots[i].ip) != ip_to_v4(&after.slots[i].ip);
		slots_fini(&before);
		slots_fini(&after);
	}
	/* Of 448; the bound on shares moves a few. */
	assert_in_range(moved, 0, 44);
}

static bool
not_the_first(void *arg, const struct slots_target *t)
{
	(void)arg;
	return ip_to_v4(&t->ip) != 0x0a000000;
}

static bool
none(void *arg, const struct slots_target *t)
{
	(void)arg;
	(void)t;
	return false;
}

static void
best_tier_that_lives(void **state)
{
	struct service_port p = port_with(4);
	struct slots plan;

	(void)state;
	endpoints[0].tier = TIER_NODE;
	endpoints[1].tier = TIER_ZONE;
	make(&plan, &p, false, NULL);
	assert_true(plan.n == 1 && ip_to_v4(&plan.slots[0].ip) == 0x0a000000);
	slots_fini(&plan);
	make(&plan, &p, false, not_the_first);
	assert_true(plan.n == 1 && ip_to_v4(&plan.slots[0].ip) == 0x0a000001);
	slots_fini(&plan);
	make(&plan, &p, false, none); /* never none at all */
	assert_true(plan.n == 1 && ip_to_v4(&plan.slots[0].ip) == 0x0a000000);
	slots_fini(&plan);
}

static void
only_what_the_kernel_can_reach(void **state)
{
	struct service_port p = port_with(4);
	struct slots_target t;
	struct slots plan;

	(void)state;
	endpoints[0].via = VIA_TUNNEL;
	endpoints[1].ip = in6addr_loopback;
	endpoints[2].ip.s6_addr[12] = 127;
	for (unsigned i = 0; i < 3; i++)
		assert_false(slots_direct(&endpoints[i], false, &t));
	make(&plan, &p, false, NULL);
	assert_true(plan.n == 1 && ip_to_v4(&plan.slots[0].ip) == 0x0a000003);
	slots_fini(&plan);
	p.n_endpoints = 3;
	make(&plan, &p, false, NULL);
	assert_int_equal(plan.n, 0);
	slots_fini(&plan);
}

/* Of endpoints with two addresses each family has its own; the kernel does not translate between
 * them. */
static void
each_family_has_its_own(void **state)
{
	static const struct in6_addr six = {.s6_addr = {0xfd, [15] = 6}};
	struct service_port p = port_with(3);
	struct slots_target t;
	struct slots plan;

	(void)state;
	endpoints[1].other = six;
	endpoints[2].other = in6addr_loopback;
	for (int swapped = 0; swapped < 2; swapped++) {
		assert_false(slots_direct(&endpoints[0], true, &t));
		assert_false(slots_direct(&endpoints[2], true, &t));
		slots_make(&plan, &p, &(struct slots_ask){.v6 = true});
		assert_true(plan.n == 1 && ip_same(&plan.slots[0].ip, &six));
		slots_fini(&plan);
		make(&plan, &p, false, NULL);
		assert_true(plan.n == 3 && ip_to_v4(&plan.slots[1].ip) == 0x0a000001);
		slots_fini(&plan);
		endpoints[1].other = endpoints[1].ip;
		endpoints[1].ip = six;
	}
}

/* The leaving one behind the others is for calls from outside that stay on this node. */
static void
a_leaving_one_is_for_local_calls(void **state)
{
	struct service_port p = port_with(3);
	struct slots plan;

	(void)state;
	p.n_endpoints = 2;
	p.n_leaving = 1;
	endpoints[2].flags = ENDPOINT_LOCAL | ENDPOINT_SERVING | ENDPOINT_TERMINATING;
	make(&plan, &p, false, NULL);
	assert_true(plan.n == 2 && slots_of(&plan, 0x0a000002) == 0);
	slots_fini(&plan);
	slots_make(&plan, &p, &(struct slots_ask){.local = true});
	assert_true(plan.n == 1 && slots_of(&plan, 0x0a000002) == 1);
	slots_fini(&plan);
}

static void
doubles_count_once(void **state)
{
	struct service_port p = port_with(3);
	struct slots plan, same;

	(void)state;
	endpoints[2] = endpoints[0];
	make(&plan, &p, false, NULL);
	assert_int_equal(plan.n, 2);
	make(&same, &p, false, NULL);
	assert_true(slots_same(&plan, &same));
	same.slots[1].port++;
	assert_false(slots_same(&plan, &same));
	assert_false(slots_has(&plan, &same.slots[1]));
	slots_fini(&plan);
	slots_fini(&same);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everybody_has_a_fair_share),
		cmocka_unit_test(more_than_there_are_slots),
		cmocka_unit_test(affinity_survives_an_end),
		cmocka_unit_test(best_tier_that_lives),
		cmocka_unit_test(only_what_the_kernel_can_reach),
		cmocka_unit_test(each_family_has_its_own),
		cmocka_unit_test(a_leaving_one_is_for_local_calls),
		cmocka_unit_test(doubles_count_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
