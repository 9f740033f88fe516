/* Which endpoints have which slots: odds, tiers, affinity that survives changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>

#include "iptables/maps/slots.h"

enum { MOST = 2000 };

static struct endpoint endpoints[MOST];

/* 10.0.0.0 and following, port 53. */
static struct service_port
port_with(unsigned n)
{
	assert_true(n <= MOST);
	for (unsigned i = 0; i < n; i++) {
		uint32_t ip = htonl(0x0a000000 + i);

		endpoints[i] = (struct endpoint){.port = 53, .via = VIA_HOST, .tier = TIER_REST};
		endpoints[i].ip.s6_addr[10] = endpoints[i].ip.s6_addr[11] = 0xff;
		memcpy(endpoints[i].ip.s6_addr + 12, &ip, sizeof ip);
	}
	return (struct service_port){
		.port = 53, .mode = PORT_UDP, .n_endpoints = (uint16_t)n, .endpoints = endpoints};
}

static unsigned
slots_of(const struct slots *p, uint32_t ip)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->n; i++)
		n += p->slots[i].ip == ip;
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

			slots_make(&plan, &p, client, NULL, NULL);
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
	slots_make(&plan, &p, false, NULL, NULL);
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

		slots_make(&before, &p, true, NULL, NULL);
		endpoints[gone] = endpoints[7];
		p.n_endpoints = 7;
		slots_make(&after, &p, true, NULL, NULL);
		assert_int_equal(before.n, after.n);
		for (unsigned i = 0; i < before.n; i++)
			moved += before.slots[i].ip != 0x0a000000 + gone &&
				before.slots[i].ip != after.slots[i].ip;
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
	return t->ip != 0x0a000000;
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
	slots_make(&plan, &p, false, NULL, NULL);
	assert_true(plan.n == 1 && plan.slots[0].ip == 0x0a000000);
	slots_fini(&plan);
	slots_make(&plan, &p, false, not_the_first, NULL);
	assert_true(plan.n == 1 && plan.slots[0].ip == 0x0a000001);
	slots_fini(&plan);
	slots_make(&plan, &p, false, none, NULL); /* never none at all */
	assert_true(plan.n == 1 && plan.slots[0].ip == 0x0a000000);
	slots_fini(&plan);
}

static void
only_what_the_kernel_can_reach(void **state)
{
	struct service_port p = port_with(4);
	struct slots plan;

	(void)state;
	endpoints[0].via = VIA_TUNNEL;
	endpoints[1].ip = in6addr_loopback;
	endpoints[2].ip.s6_addr[12] = 127;
	for (unsigned i = 0; i < 3; i++)
		assert_false(slots_direct(&endpoints[i]));
	slots_make(&plan, &p, false, NULL, NULL);
	assert_true(plan.n == 1 && plan.slots[0].ip == 0x0a000003);
	slots_fini(&plan);
	p.n_endpoints = 3;
	slots_make(&plan, &p, false, NULL, NULL);
	assert_int_equal(plan.n, 0);
	slots_fini(&plan);
}

static void
doubles_count_once(void **state)
{
	struct service_port p = port_with(3);
	struct slots plan, same;

	(void)state;
	endpoints[2] = endpoints[0];
	slots_make(&plan, &p, false, NULL, NULL);
	assert_int_equal(plan.n, 2);
	slots_make(&same, &p, false, NULL, NULL);
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
		cmocka_unit_test(doubles_count_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
