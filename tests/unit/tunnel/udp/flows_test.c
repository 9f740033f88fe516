#include "tunnel/udp/flows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The table of a UDP map's flows: how many, who goes first, who is idle. */

enum { MOST = 8, OF_SOURCE = 3, SOURCES = 6, PORTS = 4, NOW = 1000 };

static const struct flows_limits limits = {
	.most = MOST, .of_source = OF_SOURCE, .idle_ms = {100, 1000, 6000}};

static struct flow_entry entries[SOURCES][PORTS];

static struct flow_key
key_of(unsigned source, unsigned port)
{
	struct flow_key key;

	memset(&key, 0, sizeof key);
	key.client.s6_addr[15] = (uint8_t)source;
	key.port = port;
	return key;
}

/* As a map does it: whoever must go goes; how many went. */
static unsigned
add(struct flows *f, unsigned source, unsigned port, uint64_t now)
{
	const struct flow_key key = key_of(source, port);
	struct flow_entry *victim;
	unsigned gone = 0;

	assert_null(flows_find(f, &key));
	for (; (victim = flows_victim(f, &key)) != NULL; gone++)
		flows_remove(f, victim);
	flows_add(f, &entries[source][port], &key, now);
	return gone;
}

static bool
has(const struct flows *f, unsigned source, unsigned port)
{
	const struct flow_key key = key_of(source, port);
	struct flow_entry *e = flows_find(f, &key);

	assert_true(e == NULL || e == &entries[source][port]);
	return e != NULL;
}

static void
clear(struct flows **f)
{
	struct flow_entry *e;
	unsigned n = 0, count = flows_count(*f);

	for (e = flows_next(*f, NULL); e != NULL; e = flows_next(*f, e))
		n++;
	assert_int_equal(n, count);
	while ((e = flows_next(*f, NULL)) != NULL)
		flows_remove(*f, e);
	assert_int_equal(flows_count(*f), 0);
	flows_free(f);
	assert_null(*f);
}

static void
found_by_all_of_the_key(void **state)
{
	struct flows *f = flows_new(&limits);
	struct flow_key other;

	(void)state;
	add(f, 1, 1, NOW);
	assert_true(has(f, 1, 1));
	assert_false(has(f, 1, 2));
	assert_false(has(f, 2, 1));
	other = key_of(1, 1);
	other.local.s6_addr[15] = 9;
	assert_null(flows_find(f, &other));
	other = key_of(1, 1);
	other.scope = 2;
	assert_null(flows_find(f, &other));
	clear(&f);
}

static void
one_source_makes_room_among_its_own(void **state)
{
	struct flows *f = flows_new(&limits);

	(void)state;
	add(f, 1, 0, NOW);
	add(f, 2, 0, NOW + 1);
	add(f, 2, 1, NOW + 2);
	add(f, 2, 2, NOW + 3);
	flows_touch(f, &entries[2][0], FLOW_BRIEF, NOW + 4);
	assert_int_equal(add(f, 2, 3, NOW + 5), 1);
	assert_false(has(
		f, 2, 1)); /* of source 2 the one that was idle longest; source 1 was idle longer */
	assert_true(has(f, 1, 0) && has(f, 2, 0) && has(f, 2, 2) && has(f, 2, 3));
	clear(&f);
}

static void
a_full_map_makes_room(void **state)
{
	struct flows *f = flows_new(&limits);

	(void)state;
	for (unsigned i = 0; i < MOST; i++)
		assert_int_equal(add(f, i / 2, i % 2, NOW + i), 0);
	flows_touch(f, &entries[0][0], FLOW_LASTING, NOW + 20);
	assert_int_equal(add(f, 5, 0, NOW + 21), 1);
	assert_false(has(f, 0, 1));
	/* who was refused goes first, however short a while ago */
	flows_touch(f, &entries[3][1], FLOW_REFUSED, NOW + 22);
	assert_int_equal(add(f, 5, 1, NOW + 23), 1);
	assert_false(has(f, 3, 1));
	flows_touch(f, &entries[1][0], FLOW_BRIEF, NOW + 24);
	assert_int_equal(add(f, 4, 0, NOW + 25), 1);
	assert_false(has(f, 1, 1));
	assert_int_equal(flows_count(f), MOST);
	clear(&f);
}

/* Who is past its class's time, in the order of their last datagrams. */
static void
idle_flows_end(void **state)
{
	struct flows *f = flows_new(&limits);

	(void)state;
	add(f, 1, 0, NOW);
	add(f, 1, 1, NOW);
	add(f, 1, 2, NOW);
	assert_null(flows_expired(f, NOW + 5999));
	flows_touch(f, &entries[1][1], FLOW_BRIEF, NOW + 10);
	flows_touch(f, &entries[1][2], FLOW_REFUSED, NOW + 20);
	assert_null(flows_expired(f, NOW + 119));
	assert_ptr_equal(flows_expired(f, NOW + 120), &entries[1][2]);
	flows_remove(f, &entries[1][2]);
	assert_null(flows_expired(f, NOW + 1009));
	assert_ptr_equal(flows_expired(f, NOW + 1010), &entries[1][1]);
	flows_touch(f, &entries[1][1], FLOW_LASTING, NOW + 1010); /* there was more to come */
	assert_null(flows_expired(f, NOW + 5999));
	assert_ptr_equal(flows_expired(f, NOW + 6000), &entries[1][0]);
	flows_hurry(f, 50);
	flows_touch(f, &entries[1][0], FLOW_LASTING, NOW + 1010);
	assert_null(flows_expired(f, NOW + 1059));
	assert_non_null(flows_expired(f, NOW + 1060));
	clear(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_by_all_of_the_key),
		cmocka_unit_test(one_source_makes_room_among_its_own),
		cmocka_unit_test(a_full_map_makes_room),
		cmocka_unit_test(idle_flows_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
