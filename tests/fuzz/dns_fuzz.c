/* DNS messages: whatever comes in, what we answer can be parsed and fits; as an upstream's answer too. */
#include <assert.h>
#include <string.h>

#include "dns/cache.h"
#include "dns/rewrite.h"
#include "tests/unit/dns_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct world {
	struct dns_zone zone;
	struct snapshot *snapshot;
	struct buf text;
	struct cache *cache;
	uint64_t now_ms;
};

static struct world *
world(void)
{
	static struct world w;

	if (w.snapshot == NULL) {
		dns_zone_init(&w.zone, "cluster.local", 30);
		w.zone.address = 0xac110001;
		w.snapshot = kit_snapshot();
		buf_init(&w.text, BUF_UNLIMITED);
		cache_new(&w.cache, &(struct cache_limits){64, 32768}, 1);
	}
	return &w;
}

static void
check_reply(struct world *w, const struct dns_query *q, const uint8_t *out, size_t n, size_t limit)
{
	assert(n >= DNS_HEADER && n <= limit);
	assert(out[2] & 0x80);
	assert(dns_get16(out) == q->id);
	assert(strcmp(kit_describe(&w->text, out, n), "malformed") != 0);
}

static void
as_query(struct world *w, const uint8_t *data, size_t len)
{
	uint8_t out[DNS_UDP_MAX], up[DNS_FORWARD_MAX];
	struct dns_out to = {.bytes = out};
	struct dns_target target;
	struct dns_query q;
	size_t n = 0;
	enum dns_parse parsed = dns_query_parse(&q, data, len);
	enum dns_verdict verdict;

	if (parsed == DNS_PARSE_DROP)
		return;
	if (parsed == DNS_PARSE_REFUSE) {
		n = dns_reply_error(out, dns_reply_limit(&q), &q, (enum dns_rcode)q.rcode);
		check_reply(w, &q, out, n, dns_reply_limit(&q));
		return;
	}
	to.size = dns_reply_limit(&q);
	verdict = dns_answer(&w->zone, w->snapshot, &q, &to, &target);
	if (verdict == DNS_FORWARD) {
		n = dns_forward_build(up, &q, NULL);
		assert(dns_query_parse(&q, up, n) == DNS_PARSE_OK);
	} else {
		check_reply(w, &q, out, to.len, to.size);
	}
}

/* What is kept comes back as long and as well-formed as it was, at any age. */
static void
as_cached(struct world *w, const struct dns_query *q, const uint8_t *data, size_t len)
{
	struct cache_answer answer;
	struct cache_key key;
	uint64_t now = w->now_ms += 1000;

	cache_key_init(&key, q, NULL);
	if (!cache_put(w->cache, &key, data, len, now))
		return;
	assert(cache_entries(w->cache) <= 64 && cache_bytes(w->cache) <= 32768);
	for (unsigned i = 0; i < 3; i++) {
		static const uint64_t ages_ms[] = {0, 999, 86400 * 1000};
		enum cache_state state = cache_find(w->cache, &key, now + ages_ms[i], &answer);
		uint8_t out[512];
		struct dns_out to = {.bytes = out, .size = sizeof out};

		assert(state == (i < 2 ? CACHE_FRESH : CACHE_STALE));
		assert(answer.len == len);
		if (dns_forward_answer(&to, q, answer.bytes, answer.len))
			check_reply(w, q, out, to.len, to.size);
	}
	if (w->now_ms % 7 == 0)
		cache_fail(w->cache, &key, now);
}

/* The question is taken from the bytes themselves, so that the answer is one to it. */
static void
as_answer(struct world *w, const uint8_t *data, size_t len)
{
	uint8_t query[512] = {0}, out[DNS_UDP_MAX];
	size_t end = len > DNS_HEADER ? dns_name_skip(data, len, DNS_HEADER) : 0;
	struct dns_target target;
	struct dns_query q;
	struct dns_out to = {.bytes = out, .size = 512};

	if (end == 0 || len - end < 4 || end + 4 > sizeof query)
		return;
	memcpy(query + DNS_HEADER, data + DNS_HEADER, end + 4 - DNS_HEADER);
	query[5] = 1;
	if (dns_query_parse(&q, query, end + 4) != DNS_PARSE_OK)
		return;
	as_cached(w, &q, data, len);
	if (dns_forward_answer(&to, &q, data, len))
		check_reply(w, &q, out, to.len, to.size);
	memcpy(target.name, q.name, q.name_len);
	target.len = q.name_len;
	if (dns_chase_answer(&to, &q, &target, 30, data, len))
		check_reply(w, &q, out, to.len, to.size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct world *w = world();

	as_query(w, data, len);
	as_answer(w, data, len);
	return 0;
}
