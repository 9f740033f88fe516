#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "meta/client/hub_addresses.h"

static const char *const urls[] = {"wss://hub.example.test:10000", "wss://192.0.2.9:443", NULL};

static struct hub_addresses
make(void)
{
	struct hub_addresses p;
	struct err err = {0};

	assert_int_equal(hub_addresses_init(&p, urls, "cluster.local", &err), 0);
	return p;
}

static void
refuses_urls(void **state)
{
	static const char *const nothing[] = {NULL}, *const plain[] = {"ws://hub:1", NULL};
	static const char *const inside[] = {
		"wss://192.0.2.1", "wss://hub.default.svc.Cluster.Local.:10000", NULL};
	struct hub_addresses p;
	struct err err = {0};

	(void)state;
	assert_int_equal(hub_addresses_init(&p, nothing, "cluster.local", &err), -EINVAL);
	hub_addresses_fini(&p);
	assert_int_equal(hub_addresses_init(&p, plain, "cluster.local", &err), -EINVAL);
	hub_addresses_fini(&p);
	assert_int_equal(hub_addresses_init(&p, inside, "cluster.local", &err), -EINVAL);
	assert_non_null(strstr(err.text, "inside the cluster domain"));
	hub_addresses_fini(&p);
}

/* The addresses of this turn, with blanks between them. */
static const char *
turn(struct hub_addresses *p)
{
	static char text[1024];
	char one[ADDR_TEXT_MAX];
	struct addr a;

	text[0] = '\0';
	while (hub_addresses_next(p, &a)) {
		strncat(text, addr_text(&a, one), sizeof text - strlen(text) - 2);
		strcat(text, " ");
	}
	return text;
}

/* The family that worked last is the first; within a family the order stays. */
static void
begins_with_the_family_that_worked(void **state)
{
	struct hub_addresses p = make();
	struct addr found[4];

	(void)state;
	assert_int_equal(addr_parse(&found[0], "[2001:db8::1]:10000", 0, NULL), 0);
	found[1] = addr_ipv4(0xc0000202, 10000);
	assert_int_equal(addr_parse(&found[2], "[2001:db8::2]:10000", 0, NULL), 0);
	found[3] = addr_ipv4(0xc0000201, 10000);
	hub_addresses_found(&p, found, 4);
	assert_string_equal(turn(&p),
		"[2001:db8::1]:10000 192.0.2.2:10000 [2001:db8::2]:10000 192.0.2.1:10000 ");
	hub_addresses_good(&p, "192.0.2.1:10000");
	hub_addresses_found(&p, found, 4);
	assert_string_equal(turn(&p),
		"192.0.2.2:10000 192.0.2.1:10000 [2001:db8::1]:10000 [2001:db8::2]:10000 ");
	hub_addresses_recall(&p, 0, "[2001:db8::9]:10000", NULL);
	hub_addresses_found(&p, found, 4);
	assert_string_equal(turn(&p),
		"[2001:db8::1]:10000 [2001:db8::2]:10000 192.0.2.2:10000 192.0.2.1:10000 "
		"[2001:db8::9]:10000 ");
	hub_addresses_fini(&p);
}

static void
orders_addresses(void **state)
{
	struct hub_addresses p = make();
	struct addr found[12];
	char told[MESSAGE_ADDRESSES_MAX][MESSAGE_ADDRESS_TEXT] = {
		"203.0.113.2", "2001:db8::2", "hub.example", "unix:/x"};

	(void)state;
	assert_int_equal(hub_addresses_found(&p, NULL, 0), 0); /* nothing is known */
	assert_string_equal(turn(&p), "");
	found[0] = addr_ipv4(0xc0000201, 10000);
	found[1] = addr_ipv4(0xc0000202, 10000);
	assert_int_equal(hub_addresses_found(&p, found, 2), 2);
	assert_string_equal(turn(&p), "192.0.2.1:10000 192.0.2.2:10000 ");
	assert_true(hub_addresses_good(&p, "192.0.2.2:10000"));
	assert_false(hub_addresses_good(&p, "192.0.2.2:10000"));
	assert_true(hub_addresses_told(&p, told, 4));
	assert_false(hub_addresses_told(&p, told, 4));
	assert_false(hub_addresses_told(&p, told, 0));
	assert_int_equal(p.place[0].n_told, 2); /* names and paths are no addresses */
	hub_addresses_found(&p, found, 1); /* each once, what the name says now first */
	assert_string_equal(
		turn(&p), "192.0.2.1:10000 192.0.2.2:10000 203.0.113.2:10000 [2001:db8::2]:10000 ");
	hub_addresses_found(&p, NULL, 0); /* the name cannot be resolved */
	assert_string_equal(turn(&p), "192.0.2.2:10000 203.0.113.2:10000 [2001:db8::2]:10000 ");
	for (unsigned i = 0; i < ARRAY_LEN(found); i++)
		found[i] = addr_ipv4(0xc6336400 + i, 10000);
	assert_int_equal(hub_addresses_found(&p, found, ARRAY_LEN(found)), PLACE_FOUND_MAX + 3);
	hub_addresses_fini(&p);
}

static void
knows_of_others(void **state)
{
	const char *const one[] = {"wss://hub.example:443", NULL};
	char told[1][MESSAGE_ADDRESS_TEXT] = {"192.0.2.2"};
	const struct addr at = addr_ipv4(0xc0000202, 443), other = addr_ipv4(0xc0000203, 443);
	struct hub_addresses p;

	(void)state;
	assert_int_equal(hub_addresses_init(&p, one, "cluster.local", NULL), 0);
	hub_addresses_found(&p, &at, 1);
	hub_addresses_good(&p, "192.0.2.2:443");
	hub_addresses_told(&p, told, 1);
	assert_false(hub_addresses_elsewhere(&p, &at));
	assert_true(hub_addresses_elsewhere(&p, &other));
	told[0][8] = '3';
	hub_addresses_told(&p, told, 1);
	assert_true(hub_addresses_elsewhere(&p, &at));
	hub_addresses_fini(&p);
	p = make();
	assert_true(hub_addresses_elsewhere(&p, &at)); /* the second URL */
	hub_addresses_fini(&p);
}

static void
remembers_over_restarts(void **state)
{
	struct hub_addresses p = make();
	auto_free char *text = NULL;

	(void)state;
	hub_addresses_recall(&p, 1, "192.0.2.77:443", "203.0.113.5 203.0.113.6 what is this 1 2 3");
	hub_addresses_failed(&p, 0);
	assert_string_equal(hub_addresses_now(&p)->url, urls[1]);
	hub_addresses_found(&p, NULL, 0);
	assert_string_equal(turn(&p), "192.0.2.77:443 203.0.113.5:443 203.0.113.6:443 ");
	text = hub_addresses_told_text(hub_addresses_now(&p));
	assert_non_null(strstr(text, "203.0.113.5 203.0.113.6"));
	hub_addresses_fini(&p);
}

static void
takes_turns_and_backs_off(void **state)
{
	struct hub_addresses p = make();
	uint64_t bound = HUB_ADDRESSES_FIRST_MS;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(p.now, i % 2);
		assert_int_equal(hub_addresses_failed(&p, bound), bound); /* the longest possible */
		bound = MIN(bound * 2, (uint64_t)HUB_ADDRESSES_MOST_MS);
	}
	assert_int_equal(hub_addresses_failed(&p, 0), 0);
	assert_int_equal(hub_addresses_failed(&p, UINT64_MAX) <= HUB_ADDRESSES_MOST_MS, 1);
	hub_addresses_lived(&p, 100, true); /* accepted, in step, and cut at once */
	assert_int_equal(p.backoff_ms, HUB_ADDRESSES_MOST_MS);
	hub_addresses_lived(&p, 10 * HUB_ADDRESSES_GOOD_MS, false); /* never got in step */
	assert_int_equal(p.backoff_ms, HUB_ADDRESSES_MOST_MS);
	hub_addresses_lived(&p, HUB_ADDRESSES_GOOD_MS, true);
	assert_int_equal(p.backoff_ms, HUB_ADDRESSES_FIRST_MS);
	hub_addresses_fini(&p);
}

static uint64_t
random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

enum { AGENTS = 1000, DOWN_MS = 60 * 1000, END_MS = 200 * 1000, BUCKET_MS = 100 };

/* When each of a thousand agents tries, if their hub goes down at 0 ms and is back after down_ms:
 * attempts in every 100 ms, and when the last one is back. */
static uint64_t
restart(uint64_t seed, uint64_t down_ms, unsigned attempts[END_MS / BUCKET_MS])
{
	uint64_t last = 0;

	memset(attempts, 0, END_MS / BUCKET_MS * sizeof(*attempts));
	for (unsigned i = 0; i < AGENTS; i++) {
		struct hub_addresses p = {.n = 1, .backoff_ms = HUB_ADDRESSES_FIRST_MS};
		uint64_t at = 0;

		do {
			at += hub_addresses_failed(&p, random_next(&seed));
			assert_true(at < END_MS);
			attempts[at / BUCKET_MS]++;
		} while (at < down_ms);
		last = MAX(last, at);
	}
	return last;
}

/* Once the first second is over the attempts are spread: no wave of many at once, neither while the
 * hub is away nor when it comes back, and everybody is back soon. */
static void
thousand_agents_calm_down(void **state)
{
	static unsigned attempts[END_MS / BUCKET_MS];

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint64_t last = restart(seed, DOWN_MS, attempts);
		unsigned most_early = 0, most_late = 0, all = 0;

		for (unsigned i = 0; i < END_MS / BUCKET_MS; i++) {
			all += attempts[i];
			if (i >= 1000 / BUCKET_MS && i < 10000 / BUCKET_MS)
				most_early = MAX(most_early, attempts[i]);
			if (i >= 30000 / BUCKET_MS)
				most_late = MAX(most_late, attempts[i]);
		}
		if (seed == 1)
			printf("# hub away for 60 s, 1000 agents: %u attempts, at most %u in 100 "
			       "ms "
			       "after 1 s, %u after 30 s; all back %.1f s after the hub\n",
				all, most_early, most_late, (double)(last - DOWN_MS) / 1000);
		assert_in_range(all, AGENTS * 10, AGENTS * 25);
		assert_true(most_early < AGENTS / 5);
		assert_true(most_late < AGENTS / 50);
		assert_true(last < DOWN_MS + HUB_ADDRESSES_MOST_MS + 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_urls),
		cmocka_unit_test(orders_addresses),
		cmocka_unit_test(begins_with_the_family_that_worked),
		cmocka_unit_test(knows_of_others),
		cmocka_unit_test(remembers_over_restarts),
		cmocka_unit_test(takes_turns_and_backs_off),
		cmocka_unit_test(thousand_agents_calm_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
