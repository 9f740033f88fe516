#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/core/hash.h"
#include "meta/state/ipam.h"

enum { SUBNET = 0x09fb0000u, SMALL = 0xfffffff8u /* /29: 6 addresses */ };
enum { MINUTE = 60 * 1000, NOW = 1000 * MINUTE };

static struct ipam *
make(uint32_t mask)
{
	struct ipam *ipam;

	assert_int_equal(ipam_new(&ipam, SUBNET, mask, NULL), 0);
	return ipam;
}

static uint32_t
take(struct ipam *ipam, const char *key, uint64_t now)
{
	uint32_t ip = 0;

	assert_int_equal(ipam_take(ipam, key, now, &ip), 0);
	assert_true(ip > SUBNET && ip < SUBNET + 0xffff);
	return ip;
}

static void
subnets(void **state)
{
	struct ipam *ipam = NULL;
	struct err err;

	(void)state;
	assert_int_equal(ipam_new(&ipam, SUBNET, 0xffffffff, &err), -EINVAL);
	assert_int_equal(ipam_new(&ipam, SUBNET, 0xfffffffe, &err), -EINVAL);
	assert_non_null(strstr(err.text, "/30"));
	assert_null(ipam);
	ipam = make(0xffff0000);
	assert_int_equal(ipam_count(ipam).size, 65534);
	assert_int_equal(ipam_put(ipam, "a/a", SUBNET), -ERANGE);
	assert_int_equal(ipam_put(ipam, "a/a", SUBNET + 0xffff), -ERANGE);
	assert_int_equal(ipam_put(ipam, "a/a", SUBNET + 1), 0);
	assert_int_equal(ipam_put(ipam, "a/b", SUBNET + 1), -EEXIST);
	assert_int_equal(ipam_put(ipam, "a/a", SUBNET + 2), -EEXIST);
	assert_int_equal(ipam_put(ipam, "a/c", SUBNET + 0xfffe), 0);
	ipam_free(&ipam);
	assert_null(ipam);
}

/* The first choice is the hash: another node with other services comes to the same address. */
static void
nodes_agree(void **state)
{
	struct ipam *a = make(0xffff0000), *b = make(0xffff0000);
	uint32_t ip = take(a, "default/web", NOW);

	(void)state;
	assert_int_equal(ip, SUBNET + 1 + hash64("default/web", 11, 0) % 65534);
	take(b, "default/other", NOW);
	assert_int_equal(take(b, "default/web", NOW), ip);
	assert_int_equal(take(a, "default/web", NOW + MINUTE), ip);
	assert_int_equal(ipam_count(a).used, 1);
	ipam_free(&a);
	ipam_free(&b);
}

/* Every address of a small range is given once, whatever the hashes are; then no more. */
static void
collisions_and_exhaustion(void **state)
{
	struct ipam *ipam = make(SMALL);
	unsigned seen = 0;
	uint32_t ip = 0;
	char key[32];

	(void)state;
	for (int i = 0; i < 6; i++) {
		snprintf(key, sizeof(key), "default/s%d", i);
		ip = take(ipam, key, NOW);
		assert_true(ip >= SUBNET + 1 && ip <= SUBNET + 6);
		assert_int_equal(seen & 1u << (ip - SUBNET), 0);
		seen |= 1u << (ip - SUBNET);
	}
	assert_int_equal(seen, 0x7e);
	assert_int_equal(ipam_take(ipam, "default/s6", NOW, &ip), -ENOSPC);
	assert_int_equal(ipam_find(ipam, "default/s6"), 0);
	assert_int_equal(ipam_count(ipam).used, 6);
	ipam_free(&ipam);
}

static void
many(void **state)
{
	struct ipam *ipam = make(0xffff0000);
	uint8_t *seen = xcalloc(65536, 1);
	uint32_t ip;
	char key[32];

	(void)state;
	for (int i = 0; i < 65534; i++) {
		snprintf(key, sizeof(key), "ns%d/service-%d", i % 7, i);
		ip = take(ipam, key, NOW);
		assert_int_equal(seen[ip - SUBNET]++, 0);
	}
	assert_int_equal(seen[0] + seen[65535], 0);
	assert_int_equal(ipam_take(ipam, "one/more", NOW, &ip), -ENOSPC);
	free(seen);
	ipam_free(&ipam);
}

static void
rest_and_reuse(void **state)
{
	struct ipam *ipam = make(SMALL);
	uint32_t a = take(ipam, "n/a", NOW), b = take(ipam, "n/b", NOW), ip;

	(void)state;
	assert_int_equal(ipam_release(ipam, "n/b", NOW), b);
	assert_int_equal(ipam_release(ipam, "n/a", NOW + 1), a);
	assert_int_equal(ipam_release(ipam, "n/a", NOW + 1), 0);
	assert_int_equal(ipam_find(ipam, "n/a"), 0);
	for (int i = 0; i < 4; i++) { /* fresh ones first, even when the others have rested long */
		char key[8] = {'n', '/', (char)('c' + i), '\0'};

		ip = take(ipam, key, NOW + 60 * MINUTE);
		assert_true(ip != a && ip != b);
	}
	assert_int_equal(take(ipam, "n/g", NOW + 60 * MINUTE), b); /* released first */
	assert_int_equal(take(ipam, "n/h", NOW + 60 * MINUTE), a);
	assert_int_equal(ipam_take(ipam, "n/a", NOW + 60 * MINUTE, &ip), -ENOSPC); /* too late */
	ipam_free(&ipam);
}

static void
rest_is_ten_minutes(void **state)
{
	struct ipam *ipam = make(0xfffffffc); /* 2 addresses */
	uint32_t a = take(ipam, "n/a", NOW), ip;

	(void)state;
	take(ipam, "n/b", NOW);
	ipam_release(ipam, "n/a", NOW);
	assert_int_equal(ipam_take(ipam, "n/c", NOW, &ip), -ENOSPC);
	assert_int_equal(ipam_take(ipam, "n/c", NOW + 10 * MINUTE - 1, &ip), -ENOSPC);
	assert_int_equal(take(ipam, "n/c", NOW + 10 * MINUTE), a);
	ipam_free(&ipam);
}

static void
a_name_returns(void **state)
{
	struct ipam *ipam = make(SMALL);
	uint32_t a = take(ipam, "n/a", NOW), b = take(ipam, "n/b", NOW);

	(void)state;
	ipam_release(ipam, "n/a", NOW);
	ipam_release(ipam, "n/b", NOW);
	assert_int_equal(take(ipam, "n/b", NOW + MINUTE), b);
	assert_int_equal(take(ipam, "n/a", NOW + 24 * 60 * MINUTE), a);
	assert_int_equal(ipam_count(ipam).resting, 0);
	ipam_free(&ipam);
}

/* What a restart reads back: the same addresses, the same rest, the same order. */
static void
restart(void **state)
{
	struct ipam *ipam = make(SMALL);
	uint32_t ip;

	(void)state;
	assert_int_equal(ipam_put(ipam, "n/used", SUBNET + 1), 0);
	for (uint32_t i = 2; i <= 6; i++) {
		char key[16];

		snprintf(key, sizeof(key), "n/old%u", i);
		assert_int_equal(
			ipam_put_resting(ipam, key, SUBNET + i, NOW - (9 - i) * MINUTE, NOW), 0);
	}
	assert_int_equal(ipam_put_resting(ipam, "n/x", SUBNET + 1, NOW, NOW), -EEXIST);
	assert_int_equal(ipam_put_resting(ipam, "n/x", SUBNET + 99, NOW, NOW), -ERANGE);
	assert_int_equal(take(ipam, "n/used", NOW), SUBNET + 1);
	assert_int_equal(take(ipam, "n/old5", NOW), SUBNET + 5);
	assert_int_equal(
		ipam_take(ipam, "n/new", NOW, &ip), -ENOSPC); /* old2 rests for 7 minutes now */
	assert_int_equal(take(ipam, "n/new", NOW + 3 * MINUTE), SUBNET + 2);
	assert_int_equal(ipam_take(ipam, "n/new2", NOW + 3 * MINUTE, &ip), -ENOSPC);
	ipam_free(&ipam);
}

static void
clock_jumps_back(void **state)
{
	struct ipam *ipam = make(0xfffffffc);
	uint32_t a = take(ipam, "n/a", NOW), ip;
	uint64_t back = NOW / 2;

	(void)state;
	take(ipam, "n/b", NOW);
	ipam_release(ipam, "n/a", NOW);
	assert_int_equal(ipam_take(ipam, "n/c", back, &ip), -ENOSPC);
	assert_int_equal(ipam_take(ipam, "n/c", back + 10 * MINUTE - 1, &ip), -ENOSPC);
	assert_int_equal(
		take(ipam, "n/c", back + 10 * MINUTE), a); /* not only when NOW has come again */
	ipam_free(&ipam);
	ipam = make(0xfffffffc);
	ipam_put(ipam, "n/b", SUBNET + 1);
	ipam_put_resting(
		ipam, "n/a", SUBNET + 2, NOW, back); /* written by a clock that was ahead */
	assert_int_equal(take(ipam, "n/c", back + 10 * MINUTE), SUBNET + 2);
	ipam_free(&ipam);
}

static void
trim(void **state)
{
	struct ipam *ipam = make(0xffff0000);
	char key[32];

	(void)state;
	for (int i = 0; i <= IPAM_RESTING_MAX; i++) {
		snprintf(key, sizeof(key), "n/s%d", i);
		take(ipam, key, NOW);
		ipam_release(ipam, key, NOW + i);
	}
	assert_int_equal(ipam_trim(ipam, NOW + MINUTE), 0); /* nobody's rest is cut short */
	assert_int_equal(
		ipam_trim(ipam, NOW + 10 * MINUTE), SUBNET + 1 + hash64("n/s0", 4, 0) % 65534);
	assert_int_equal(ipam_trim(ipam, NOW + 60 * MINUTE), 0);
	assert_int_equal(ipam_count(ipam).resting, IPAM_RESTING_MAX);
	ipam_free(&ipam);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(subnets),
		cmocka_unit_test(nodes_agree),
		cmocka_unit_test(collisions_and_exhaustion),
		cmocka_unit_test(many),
		cmocka_unit_test(rest_and_reuse),
		cmocka_unit_test(rest_is_ten_minutes),
		cmocka_unit_test(a_name_returns),
		cmocka_unit_test(restart),
		cmocka_unit_test(clock_jumps_back),
		cmocka_unit_test(trim),
	};

	return cmocka_run_group_tests_name("ipam", tests, NULL, NULL);
}
