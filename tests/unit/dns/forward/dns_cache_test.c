/* What is kept, for how long, and what makes room; the clock is the test's. */
#include "dns/forward/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dns/forward/health.h"
#include "dns/forward/lookup.h"
#include "dns/forward/rewrite.h"
#include "tests/unit/dns/dns_kit.h"

#define NAME "www.example.org"
#define DAY_MS (UINT64_C(86400) * 1000)

struct fixture {
	struct cache *cache;
	struct cache_key key;
	uint64_t client; /* that asks */
	struct cache_answer got;
	struct buf text;
	uint8_t m[8192];
	size_t len;
};

static int
setup(void **state)
{
	static const struct cache_limits limits = {100, 20000};
	struct fixture *f = xcalloc(1, sizeof *f);

	cache_new(&f->cache, &limits, 1);
	buf_init(&f->text, BUF_UNLIMITED);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	cache_free(&f->cache);
	buf_fini(&f->text);
	free(f);
	return 0;
}

static void
key_of(struct cache_key *key, const char *name, unsigned type, unsigned flags, enum kit_edns edns)
{
	uint8_t m[512];
	struct dns_query q;

	assert_int_equal(
		dns_query_parse(&q, m, kit_query(m, name, type, flags, edns)), DNS_PARSE_OK);
	cache_key_init(key, &q, NULL, 0);
}

/* An answer to `name` without records; the key is set to its question. */
static void
begin(struct fixture *f, const char *name, unsigned type, unsigned rcode)
{
	f->len = kit_query(f->m, name, type, DNS_FLAG_RD, KIT_PLAIN);
	dns_put16(f->m + 2, DNS_FLAG_QR | DNS_FLAG_AA | DNS_FLAG_RA | rcode);
	key_of(&f->key, name, type, DNS_FLAG_RD, KIT_PLAIN);
}

static void
put(struct fixture *f, unsigned section, unsigned type, uint32_t ttl_s, const void *data,
	size_t len)
{
	uint8_t *count = f->m + 6 + 2 * section, *p = f->m + f->len;

	dns_put16(count, dns_get16(count) + 1u);
	dns_put16(p, 0xc00c);
	dns_put16(p + 2, type);
	dns_put16(p + 4, DNS_CLASS_IN);
	dns_put32(p + 6, ttl_s);
	dns_put16(p + 10, (unsigned)len);
	memcpy(p + 12, data, len);
	f->len += 12 + len;
}

static void
put_a(struct fixture *f, unsigned section, uint32_t ttl_s)
{
	put(f, section, DNS_A, ttl_s, "\xc0\0\2\1", 4);
}

static void
put_soa(struct fixture *f, uint32_t ttl_s, uint32_t minimum_s)
{
	uint8_t data[22] = {0}; /* both names are the root */

	dns_put32(data + 18, minimum_s);
	put(f, DNS_SECTION_AUTHORITY, DNS_SOA, ttl_s, data, sizeof data);
}

static bool
keep(struct fixture *f, uint64_t now_ms)
{
	f->key.client = f->client;
	return cache_put(f->cache, &f->key, f->m, f->len, now_ms);
}

static const char *
find(struct fixture *f, uint64_t now_ms)
{
	static const char *const words[] = {"miss", "fresh ", "failed", "stale ", "resting "};
	static char said[256];
	enum cache_state state;

	f->key.client = f->client;
	state = cache_find(f->cache, &f->key, now_ms, &f->got);
	snprintf(said, sizeof said, "%s%s", words[state],
		f->got.len > 0 ? kit_describe(&f->text, f->got.bytes, f->got.len) : "");
	return said;
}

static void
ttls_are_counted_down(void **state)
{
	struct fixture *f = *state;

	begin(f, NAME, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 60);
	put_a(f, DNS_SECTION_ADDITIONAL, 300);
	f->len += dns_put_opt(f->m + f->len, 0, false);
	dns_put16(f->m + 10, 2);
	assert_string_equal(find(f, 5000), "miss");
	assert_true(keep(f, 5000));
	assert_string_equal(find(f, 5999),
		"fresh NOERROR an=1 ns=0 ar=2 A 192.0.2.1 ttl=60 A 192.0.2.1 ttl=300 OPT "
		"size=1232");
	assert_string_equal(find(f, 64999),
		"fresh NOERROR an=1 ns=0 ar=2 A 192.0.2.1 ttl=1 A 192.0.2.1 ttl=241 OPT size=1232");
	assert_true(memcmp(find(f, 65000), "stale ", 6) == 0);
	/* a newer one takes its place */
	assert_true(keep(f, 70000));
	assert_true(memcmp(find(f, 70000), "fresh ", 6) == 0);
	assert_int_equal(cache_entries(f->cache), 1);
}

static void
long_ttls_are_cut_and_impossible_ones_are_none(void **state)
{
	struct fixture *f = *state;

	begin(f, NAME, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 604800);
	assert_true(keep(f, 0));
	assert_string_equal(find(f, 10000), "fresh NOERROR an=1 ns=0 ar=0 A 192.0.2.1 ttl=86390");
	begin(f, "a." NAME, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 0x80000001u);
	assert_false(keep(f, 0));
	begin(f, "b." NAME, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 60);
	put_a(f, DNS_SECTION_ANSWER, 0);
	assert_false(keep(f, 0));
	assert_string_equal(find(f, 0), "miss");
}

static void
negative_answers_live_by_their_soa(void **state)
{
	struct fixture *f = *state;

	begin(f, NAME, DNS_A, DNS_NXDOMAIN);
	put_soa(f, 900, 20);
	assert_true(keep(f, 0));
	assert_string_equal(
		find(f, 5000), "fresh NXDOMAIN an=0 ns=1 ar=0 SOA of www.example.org. ttl=15");
	assert_true(memcmp(find(f, 20000), "stale ", 6) == 0);
	begin(f, NAME, DNS_AAAA, DNS_NOERROR);
	put_soa(f, 20, 900);
	assert_true(keep(f, 0));
	assert_string_equal(
		find(f, 5000), "fresh NOERROR an=0 ns=1 ar=0 SOA of www.example.org. ttl=15");
	begin(f, "a." NAME, DNS_A, DNS_NXDOMAIN);
	put_soa(f, 86400, 86400);
	assert_true(keep(f, 0));
	assert_true(memcmp(find(f, 10799999), "fresh ", 6) == 0);
	assert_true(memcmp(find(f, 10800000), "stale ", 6) == 0);
	/* an alias to nowhere */
	begin(f, "b." NAME, DNS_AAAA, DNS_NOERROR);
	put(f, DNS_SECTION_ANSWER, DNS_CNAME, 60, "\1x\xc0\x0c", 4);
	assert_false(keep(f, 0));
	put_soa(f, 30, 30);
	assert_true(keep(f, 0));
	begin(f, "c." NAME, DNS_A, DNS_NXDOMAIN);
	assert_false(keep(f, 0));
}

static void
what_is_no_answer_is_not_kept(void **state)
{
	struct fixture *f = *state;
	struct cache_key own;

	begin(f, NAME, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 60);
	own = f->key;
	f->m[2] |= DNS_FLAG_TC >> 8;
	assert_false(keep(f, 0));
	f->m[2] &= (uint8_t) ~(DNS_FLAG_TC >> 8);
	f->m[2] &= 0x7f;
	assert_false(keep(f, 0));
	f->m[2] |= 0x80;
	for (unsigned rcode = 1; rcode < 16; rcode++) {
		f->m[3] = (uint8_t)rcode;
		if (rcode != DNS_NXDOMAIN)
			assert_false(keep(f, 0));
	}
	f->m[3] = 0;
	key_of(&f->key, "wwx.example.org", DNS_A, DNS_FLAG_RD, KIT_PLAIN);
	assert_false(keep(f, 0));
	key_of(&f->key, NAME, DNS_AAAA, DNS_FLAG_RD, KIT_PLAIN);
	assert_false(keep(f, 0));
	f->key = own;
	for (size_t len = 0; len < f->len; len++)
		assert_false(cache_put(f->cache, &f->key, f->m, len, 0));
	assert_int_equal(cache_entries(f->cache), 0);
	assert_true(keep(f, 0));
	/* the newest word that cannot be kept ends what was */
	begin(f, NAME, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 0);
	assert_false(keep(f, 0));
	assert_string_equal(find(f, 0), "miss");
	assert_int_equal(cache_bytes(f->cache), 0);
}

static void
keys_tell_what_changes_the_answer(void **state)
{
	static const struct {
		const char *name;
		unsigned type, flags;
		enum kit_edns edns;
		bool same;
	} rows[] = {
		{"WwW.eXample.ORG", DNS_A, DNS_FLAG_RD, KIT_PLAIN, true},
		{NAME, DNS_A, DNS_FLAG_RD, KIT_EDNS, true},
		{NAME, DNS_A, DNS_FLAG_RD, KIT_DO, false},
		{NAME, DNS_A, DNS_FLAG_RD | DNS_FLAG_CD, KIT_PLAIN, false},
		{NAME, DNS_A, DNS_FLAG_RD | DNS_FLAG_AD, KIT_PLAIN, false},
		{NAME, DNS_A, 0, KIT_PLAIN, false},
		{NAME, DNS_AAAA, DNS_FLAG_RD, KIT_PLAIN, false},
		{"ww.example.org", DNS_A, DNS_FLAG_RD, KIT_PLAIN, false},
	};
	struct fixture *f = *state;

	begin(f, NAME, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 60);
	assert_true(keep(f, 0));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		key_of(&f->key, rows[i].name, rows[i].type, rows[i].flags, rows[i].edns);
		assert_int_equal(strcmp(find(f, 0), "miss") != 0, rows[i].same);
	}
}

static void
old_answers_stay_a_day(void **state)
{
	struct fixture *f = *state;

	begin(f, NAME, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 60);
	assert_true(keep(f, 0));
	assert_false(cache_has_stale(f->cache, &f->key, 59999));
	assert_true(cache_has_stale(f->cache, &f->key, 60000));
	assert_string_equal(find(f, 60000), "stale NOERROR an=1 ns=0 ar=0 A 192.0.2.1 ttl=30");
	cache_fail(f->cache, &f->key, 61000);
	assert_string_equal(find(f, 61999), "resting NOERROR an=1 ns=0 ar=0 A 192.0.2.1 ttl=30");
	assert_string_equal(find(f, 62000), "stale NOERROR an=1 ns=0 ar=0 A 192.0.2.1 ttl=30");
	assert_true(memcmp(find(f, 59999 + DAY_MS), "stale ", 6) == 0);
	assert_string_equal(find(f, 60000 + DAY_MS), "miss");
	assert_int_equal(cache_entries(f->cache), 0);
}

static void
failures_are_remembered_for_a_second(void **state)
{
	struct fixture *f = *state;

	begin(f, NAME, DNS_A, DNS_NOERROR);
	cache_fail(f->cache, &f->key, 0);
	assert_string_equal(find(f, 999), "failed");
	assert_false(cache_has_stale(f->cache, &f->key, 2000));
	assert_string_equal(find(f, 1000), "miss");
	cache_fail(f->cache, &f->key, 0);
	put_a(f, DNS_SECTION_ANSWER, 60);
	assert_true(keep(f, 10));
	assert_true(memcmp(find(f, 10), "fresh ", 6) == 0);
	assert_int_equal(cache_entries(f->cache), 1);
}

static void
other_upstreams_make_all_answers_stale(void **state)
{
	struct fixture *f = *state;

	begin(f, NAME, DNS_AAAA, DNS_NOERROR);
	cache_fail(f->cache, &f->key, 0);
	begin(f, NAME, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 60);
	assert_true(keep(f, 0));
	cache_expire(f->cache, 500);
	assert_string_equal(find(f, 500), "stale NOERROR an=1 ns=0 ar=0 A 192.0.2.1 ttl=30");
	key_of(&f->key, NAME, DNS_AAAA, DNS_FLAG_RD, KIT_PLAIN);
	assert_string_equal(find(f, 500), "miss");
}

static bool
has(struct fixture *f, unsigned i)
{
	char name[32];

	snprintf(name, sizeof name, "n%u.example.org", i);
	key_of(&f->key, name, DNS_A, DNS_FLAG_RD, KIT_PLAIN);
	return strcmp(find(f, 0), "miss") != 0;
}

static void
fill(struct fixture *f, unsigned n, size_t extra)
{
	static const uint8_t data[4000];
	char name[32];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof name, "n%u.example.org", i);
		begin(f, name, DNS_A, DNS_NOERROR);
		put_a(f, DNS_SECTION_ANSWER, 60);
		put(f, DNS_SECTION_ADDITIONAL, DNS_TXT, 60, data, extra);
		assert_true(keep(f, 0));
		if (i >= 5)
			assert_true(has(f, 5)); /* in use: it stays */
	}
}

static void
the_least_used_make_room(void **state)
{
	static const uint8_t zeros[4090];
	struct fixture *f = *state;

	fill(f, 150, 0);
	assert_true(cache_bytes(f->cache) <= 20000 && cache_entries(f->cache) <= 100);
	assert_int_equal(cache_entries(f->cache) + cache_evicted(f->cache), 150);
	assert_true(has(f, 149) && has(f, 5));
	assert_false(has(f, 0) || has(f, 6));
	fill(f, 20, 3900);
	assert_true(cache_bytes(f->cache) <= 20000);
	assert_int_equal(cache_entries(f->cache), 5);
	assert_true(has(f, 19) && has(f, 5) && has(f, 149)); /* the last is small, and was used */
	begin(f, "big.example.org", DNS_TXT, DNS_NOERROR);
	put(f, DNS_SECTION_ANSWER, DNS_TXT, 60, zeros, sizeof zeros);
	assert_false(keep(f, 0));
}

/* --- one client floods the cache ------------------------------------------------------------ */

enum { FLOOD = 10000, IN_USE = 100 };

enum flood { FLOOD_NXDOMAIN, FLOOD_POSITIVE, FLOOD_LARGE, FLOOD_FAILED };

static void
flood(struct fixture *f, enum flood kind, uint64_t now_ms)
{
	static const uint8_t data[3000];
	char name[32];

	for (unsigned i = 0; i < FLOOD; i++) {
		snprintf(name, sizeof name, "x%u-%u.example.org", (unsigned)kind, i);
		begin(f, name, DNS_A, kind == FLOOD_NXDOMAIN ? DNS_NXDOMAIN : DNS_NOERROR);
		if (kind == FLOOD_FAILED) {
			cache_fail(f->cache, &f->key, now_ms);
			assert_string_equal(find(f, now_ms), "failed");
			cache_fail(f->cache, &f->key, now_ms + CACHE_FAILED_MS);
			continue;
		}
		if (kind == FLOOD_NXDOMAIN)
			put_soa(f, 900, 900);
		else
			put_a(f, DNS_SECTION_ANSWER, 900);
		if (kind == FLOOD_LARGE)
			put(f, DNS_SECTION_ADDITIONAL, DNS_TXT, 900, data, sizeof data);
		assert_true(keep(f, now_ms));
	}
}

static unsigned
count_found(struct fixture *f, uint64_t now_ms, const char *want)
{
	unsigned found = 0;

	for (unsigned i = 0; i < IN_USE; i++) {
		char name[32];

		snprintf(name, sizeof name, "n%u.example.org", i);
		key_of(&f->key, name, DNS_A, DNS_FLAG_RD, KIT_PLAIN);
		found += strncmp(find(f, now_ms), want, strlen(want)) == 0;
	}
	return found;
}

/* As large as a worker's. */
static void
resize(struct fixture *f)
{
	static const struct cache_limits limits = {LOOKUP_ENTRIES, LOOKUP_BYTES};

	cache_free(&f->cache);
	cache_new(&f->cache, &limits, 1);
}

static void
a_flood_of_names_leaves_those_in_use(void **state)
{
	struct fixture *f = *state;

	resize(f);
	fill(f, IN_USE, 0);
	assert_int_equal(count_found(f, 0, "fresh "), IN_USE);
	for (enum flood kind = FLOOD_NXDOMAIN; kind <= FLOOD_FAILED; kind++) {
		flood(f, kind, 1000);
		assert_int_equal(count_found(f, 1000, "fresh "), IN_USE);
		assert_true(cache_bytes(f->cache) <= LOOKUP_BYTES);
		assert_true(cache_entries(f->cache) <= LOOKUP_ENTRIES);
	}
	for (enum flood kind = FLOOD_NXDOMAIN; kind <= FLOOD_FAILED; kind++) {
		flood(f, kind, 70000);
		assert_int_equal(count_found(f, 70000, "stale "), IN_USE);
	}
}

/* How another client makes the cache believe that its names are in use. */
enum twice { ASKED_AGAIN, RENEWED };

static void
flood_twice(struct fixture *f, enum twice how, uint64_t now_ms)
{
	char name[32];

	for (unsigned i = 0; i < FLOOD; i++) {
		snprintf(name, sizeof name, "y%u-%u.example.org", (unsigned)how, i);
		begin(f, name, DNS_A, DNS_NOERROR);
		put_a(f, DNS_SECTION_ANSWER, 900);
		assert_true(keep(f, now_ms));
		if (how == RENEWED)
			assert_true(keep(f, now_ms));
		else
			assert_true(memcmp(find(f, now_ms), "fresh ", 6) == 0);
	}
}

static void
a_client_that_asks_twice_evicts_its_own(void **state)
{
	struct fixture *f = *state;
	unsigned i = 0;

	for (f->client = 1; f->client <= 20; f->client++) {
		resize(f);
		fill(f, IN_USE, 0);
		assert_int_equal(count_found(f, 0, "fresh "), IN_USE);
		f->client += 1000; /* has those renewed, asks for them, and then for its own */
		fill(f, IN_USE, 0);
		assert_int_equal(count_found(f, 1000, "fresh "), IN_USE);
		flood_twice(f, i++ % 2 == 0 ? ASKED_AGAIN : RENEWED, 1000);
		assert_int_equal(count_found(f, 1000, "fresh "), IN_USE);
		flood_twice(f, i % 2 == 0 ? ASKED_AGAIN : RENEWED, 70000);
		f->client -= 1000;
		assert_int_equal(count_found(f, 70000, "stale "), IN_USE);
		assert_true(cache_bytes(f->cache) <= LOOKUP_BYTES);
		assert_true(cache_entries(f->cache) <= LOOKUP_ENTRIES);
	}
}

/* A greedy client was the first to ask for what others use. */
static void
what_a_greedy_client_has_is_theirs_who_use_it(void **state)
{
	struct fixture *f = *state;

	resize(f);
	f->client = 1;
	flood_twice(f, ASKED_AGAIN, 0);
	fill(f, IN_USE, 0);
	assert_int_equal(count_found(f, 0, "fresh "), IN_USE);
	f->client = 2;
	assert_int_equal(count_found(f, 0, "fresh "), IN_USE);
	f->client = 1;
	flood_twice(f, RENEWED, 0);
	assert_int_equal(count_found(f, 0, "fresh "), IN_USE);
}

/* What nobody can use any more keeps no place from a client that asks for much. */
static void
begin_numbered(struct fixture *f, unsigned i)
{
	char name[32];

	snprintf(name, sizeof name, "m%u.example.org", i);
	begin(f, name, DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 900);
}

static void
what_is_gone_is_nobodys_share(void **state)
{
	struct fixture *f = *state;

	f->client = 1;
	fill(f, 60, 0);
	for (unsigned i = 0; i < 60; i++)
		assert_true(has(f, i));
	f->client = 2;
	for (unsigned i = 0; i < 75; i++) {
		begin_numbered(f, i);
		assert_true(keep(f, 2 * DAY_MS));
		assert_true(memcmp(find(f, 2 * DAY_MS), "fresh ", 6) == 0);
	}
	for (unsigned i = 0; i < 75; i++) {
		begin_numbered(f, i);
		assert_true(memcmp(find(f, 2 * DAY_MS), "fresh ", 6) == 0);
	}
}

/* Names that this worker is never asked for, but another one is each time they expire. */
static void
a_flood_leaves_what_is_renewed(void **state)
{
	struct fixture *f = *state;

	resize(f);
	fill(f, IN_USE, 0);
	fill(f, IN_USE, 0);
	flood(f, FLOOD_NXDOMAIN, 1000);
	assert_int_equal(count_found(f, 1000, "fresh "), IN_USE);
}

/* What was in use long ago makes room for what is now. */
static void
those_in_use_change(void **state)
{
	struct fixture *f = *state;

	fill(f, 100, 0);
	assert_true(has(f, 99));
	for (unsigned i = 0; i < 100; i++)
		has(f, i);
	begin(f, "new.example.org", DNS_A, DNS_NOERROR);
	put_a(f, DNS_SECTION_ANSWER, 60);
	assert_true(keep(f, 0));
	assert_true(memcmp(find(f, 0), "fresh ", 6) == 0);
	assert_int_equal(cache_entries(f->cache), 100);
	flood(f, FLOOD_POSITIVE, 0);
	begin(f, "new.example.org", DNS_A, DNS_NOERROR);
	assert_true(memcmp(find(f, 0), "fresh ", 6) == 0);
	assert_true(has(f, 99) && has(f, 26));
	assert_false(has(f, 24) || has(f, 0));
}

/* --- the case of letters -------------------------------------------------------------------- */

static void
mixed_case_must_come_back(void **state)
{
	static const uint8_t case_bits[2][DNS_COINS] = {{0}, {0xff, 0xff, 0xff, 0xff}};
	struct fixture *f = *state;
	uint8_t sent[512];
	size_t len = kit_query(sent, "wWw.Example-1.org", DNS_A, 0, KIT_EDNS);

	(void)f;
	dns_forward_mix(sent, len, case_bits[1]);
	assert_memory_equal(sent + 12, "\3WWW\11EXAMPLE-1\3ORG\0\0\1\0\1", 23);
	assert_true(dns_forward_same(sent, len, sent, len));
	begin(f, "www.example-1.org", DNS_A, DNS_NOERROR);
	assert_false(dns_forward_same(f->m, f->len, sent, len));
	dns_forward_mix(sent, len, case_bits[0]);
	assert_true(dns_forward_same(f->m, f->len, sent, len));
	assert_false(dns_forward_same(f->m, 30, sent, len));
	f->m[f->len - 3] = DNS_AAAA;
	assert_false(dns_forward_same(f->m, f->len, sent, len));
}

/* --- upstreams ------------------------------------------------------------------------------ */

static void
silence_says_as_much_as_one_was_quick(void **state)
{
	struct health h = {0};

	(void)state;
	assert_false(health_dead(&h, 100000));
	health_asked(&h, 1000); /* never heard */
	health_asked(&h, 2000);
	assert_false(health_dead(&h, 2199) || health_alive(&h, 2199));
	assert_true(health_dead(&h, 2200));
	health_heard(&h, 20);
	assert_false(health_dead(&h, 100000));
	health_asked(&h, 10000);
	assert_false(health_dead(&h, 11199));
	assert_true(health_dead(&h, 11200));
	health_heard(&h, 3000); /* slow */
	health_asked(&h, 20000);
	assert_false(health_dead(&h, 24199));
	assert_true(health_alive(&h, 24199));
	assert_true(health_dead(&h, 24200));
	for (unsigned i = 0; i < 16; i++)
		health_heard(&h, 20); /* quick again */
	health_asked(&h, 30000);
	assert_true(health_dead(&h, 31200));
	health_heard(&h, 20);
	health_unreachable(&h);
	assert_true(health_dead(&h, 31200));
	health_heard(&h, 20);
	assert_false(health_dead(&h, 31200));
	health_pulse(&h, 5); /* quick by itself: others that it waits for are slow */
	health_heard(&h, 3000);
	health_asked(&h, 40000);
	assert_false(health_dead(&h, 41199));
	health_pulse(&h, 5);
	assert_true(health_alive(&h, 41200));
	health_asked(&h, 41200);
	assert_true(health_dead(&h, 42400));
	assert_false(health_alive(&h, 42400));
}

static void
those_who_lose_are_probed(void **state)
{
	struct health h = {0};

	(void)state;
	for (unsigned i = 1; i < HEALTH_LOST_MAX; i++)
		assert_false(health_beaten(&h, 1000) || health_lost(&h));
	assert_false(health_probe(&h, 100000));
	assert_true(health_beaten(&h, 1000) && health_lost(&h));
	assert_false(health_beaten(&h, 1500));
	assert_false(health_probe(&h, 2999));
	assert_true(health_probe(&h, 3000));
	assert_false(health_probe(&h, 3001));
	assert_true(health_probe(&h, 5000));
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(ttls_are_counted_down),
		T(long_ttls_are_cut_and_impossible_ones_are_none),
		T(negative_answers_live_by_their_soa),
		T(what_is_no_answer_is_not_kept),
		T(keys_tell_what_changes_the_answer),
		T(old_answers_stay_a_day),
		T(failures_are_remembered_for_a_second),
		T(other_upstreams_make_all_answers_stale),
		T(the_least_used_make_room),
		T(a_flood_of_names_leaves_those_in_use),
		T(a_client_that_asks_twice_evicts_its_own),
		T(what_a_greedy_client_has_is_theirs_who_use_it),
		T(what_is_gone_is_nobodys_share),
		T(a_flood_leaves_what_is_renewed),
		T(those_in_use_change),
		T(mixed_case_must_come_back),
		T(silence_says_as_much_as_one_was_quick),
		T(those_who_lose_are_probed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
