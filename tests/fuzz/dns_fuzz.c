/* DNS messages: whatever comes in, what we answer can be parsed and fits; as an upstream's answer
 * too. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "dns/answer/zone_answer.h"
#include "dns/forward/cache.h"
#include "dns/forward/rewrite.h"
#include "tests/unit/dns/dns_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct world {
	struct dns_zone zone;
	struct snapshot *snapshot;
	struct buf text;
	struct cache *cache;
	uint64_t now_ms;
	struct name_zone names; /* the hub's; its parent is that of the corpus */
};

static struct world *
world(void)
{
	static struct world w;

	if (w.snapshot == NULL) {
		dns_zone_init(&w.zone, "cluster.local", 30);
		w.zone.address = 0xac110001;
		w.zone.subnet = 0x09fb0000;
		w.zone.mask = 0xffff0000;
		fake6_parse(&w.zone.subnet6, "fd09:251::/64", NULL);
		w.zone.address6 = fake6_own(&w.zone.subnet6);
		w.snapshot = kit_snapshot();
		buf_init(&w.text, BUF_UNLIMITED);
		name_zone_init(&w.names, "default.svc.cluster.local", 10);
		cache_new(&w.cache, &(struct cache_limits){64, 32768}, 1);
	}
	return &w;
}

/* How many records of a type there are in a whole message. */
static unsigned
count_type(const uint8_t *m, size_t len, uint16_t type)
{
	size_t at = dns_get16(m + 4) > 0 ? dns_name_skip(m, len, DNS_HEADER) + 4 : DNS_HEADER;
	struct dns_record rr;
	unsigned n = 0;

	for (; at < len && dns_record_read(&rr, m, len, at); at = rr.end)
		n += rr.type == type;
	return n;
}

/* What the client gets: its id and question, an OPT if it sent one, nothing longer than it
 * takes. */
static void
check_reply(struct world *w, const struct dns_query *q, const uint8_t *out, size_t n, size_t limit)
{
	const char *said = kit_describe(&w->text, out, n);

	assert(n >= DNS_HEADER && n <= limit);
	assert(out[2] & 0x80);
	assert(dns_get16(out) == q->id);
	assert(strcmp(said, "malformed") != 0);
	assert(count_type(out, n, DNS_OPT) == (q->edns ? 1 : 0));
	assert(dns_get16(out + 4) == (q->question_end > DNS_HEADER));
	assert(memcmp(out + DNS_HEADER, q->bytes + DNS_HEADER, q->question_end - DNS_HEADER) == 0);
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
	if (verdict == DNS_ASK_POD) {
		target.pod.answer = (enum pod_answer)(data[1] % (POD_KNOWN + 1));
		snprintf(target.pod.found, sizeof target.pod.found, "172-17-0-5.shop.pod");
		verdict = dns_answer_pod(&w->zone, w->snapshot, &q, &to, &target.pod);
	}
	if (verdict == DNS_FORWARD) {
		n = dns_forward_build(up, &q, NULL);
		assert(dns_query_parse(&q, up, n) == DNS_PARSE_OK);
	} else {
		check_reply(w, &q, out, to.len, to.size);
		assert(strstr(buf_str(&w->text), "(bad name)") == NULL);
	}
	if (verdict == DNS_CHASE) {
		n = dns_forward_build(up, &q, &target);
		assert(dns_query_parse(&q, up, n) == DNS_PARSE_OK);
	}
}

/* At the hub's server of names, for which every name is there, above others, absent or not
 * known. */
static void
as_name(struct world *w, const uint8_t *data, size_t len)
{
	static uint8_t out[DNS_MESSAGE_MAX];
	struct dns_out to = {.bytes = out};
	struct name_found found = {.is = len > 0 ? data[0] & 3 : 0, .n = NAME_ADDRESSES_MAX};
	struct name_asked asked;
	struct dns_query q;

	if (dns_query_parse(&q, data, len) != DNS_PARSE_OK)
		return;
	for (unsigned i = 0; i < NAME_ADDRESSES_MAX; i += 2)
		found.addresses[i] = (struct in6_addr){.s6_addr = {[10] = 255, 255, 1, 2, 3, 4}};
	to.size = data[1] & 1 ? sizeof out : dns_reply_limit(&q);
	if (name_zone_read(&w->names, &q, &asked)) {
		assert(strlen(asked.name) < DNS_NAME_MAX);
		assert(asked.impossible || asked.name[0] == '\0' ||
			name_zone_holds(&w->names, asked.name));
	}
	name_zone_write(&w->names, &q, &asked, &found, &to);
	check_reply(w, &q, out, to.len, to.size);
	assert(strstr(buf_str(&w->text), "(bad name)") == NULL);
	assert((out[3] & DNS_FLAG_RA) == 0);
}

/* What is kept comes back as long and as well-formed as it was, at any age. */
static void
as_cached(struct world *w, const struct dns_query *q, const uint8_t *data, size_t len)
{
	struct cache_answer answer;
	struct cache_key key;
	uint64_t now = w->now_ms += 1000;

	cache_key_init(&key, q, NULL, now);
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

/* As it came by UDP or TCP: what was made of it is an answer to the same question again, and says
 * the same. */
static void
as_forwarded(struct world *w, const struct dns_query *q, const uint8_t *data, size_t len)
{
	static const size_t sizes[] = {DNS_UDP_PLAIN, 513, DNS_UDP_MAX, DNS_MESSAGE_MAX};
	static uint8_t out[DNS_MESSAGE_MAX], again[DNS_MESSAGE_MAX];
	struct dns_out to = {.bytes = out, .size = sizes[data[0] & 3]};
	struct dns_out same = {.bytes = again, .size = to.size};
	uint8_t sent[DNS_FORWARD_MAX];
	size_t n = dns_forward_build(sent, q, NULL);

	dns_forward_mix(sent, n, data);
	assert(dns_forward_same(sent, n, sent, n));
	dns_forward_same(data, len, sent, n);
	if (!dns_forward_answer(&to, q, data, len)) {
		assert(!(data[2] & 0x80) || q->class != DNS_CLASS_IN ||
			!dns_forward_sound(data, len));
		return;
	}
	check_reply(w, q, out, to.len, to.size);
	assert(!dns_forward_sound(data, len) || dns_forward_sound(out, to.len));
	assert(dns_forward_answer(&same, q, out, to.len));
	assert(same.len == to.len && memcmp(out, again, to.len) == 0);
}

/* As the answer for an alias's target. */
static void
as_chased(struct world *w, const struct dns_query *q, const uint8_t *data, size_t len)
{
	uint8_t query[512], out[DNS_UDP_MAX];
	struct dns_out to = {.bytes = out, .size = data[0] & 4 ? DNS_UDP_MAX : DNS_UDP_PLAIN};
	struct dns_target target = {.len = q->name_len};
	struct dns_query asked;
	size_t n = kit_query(query, "out.default.svc.cluster.local", q->type, 0x0100,
		data[1] & 1 ? KIT_EDNS : KIT_PLAIN);

	memcpy(target.name, q->name, q->name_len);
	if (dns_query_parse(&asked, query, n) == DNS_PARSE_OK &&
		dns_chase_answer(&to, &asked, &target, 30, data, len))
		check_reply(w, &asked, out, to.len, to.size);
}

/* The question is taken from the bytes themselves, so that the answer is one to it; what the client
 * takes, from the id. */
static void
as_answer(struct world *w, const uint8_t *data, size_t len)
{
	uint8_t query[512] = {0};
	size_t end = len > DNS_COINS ? dns_name_skip(data, len, DNS_HEADER) : 0;
	struct dns_query q;

	if (end == 0 || len - end < 4 || end + 4 + DNS_OPT_BYTES > sizeof query)
		return;
	memcpy(query + DNS_HEADER, data + DNS_HEADER, end + 4 - DNS_HEADER);
	query[5] = 1;
	end += 4;
	if (data[1] & 1) {
		query[11] = 1;
		end += dns_put_opt(query + end, 0, data[1] & 2);
	}
	if (dns_query_parse(&q, query, end) != DNS_PARSE_OK)
		return;
	as_cached(w, &q, data, len);
	as_forwarded(w, &q, data, len);
	as_chased(w, &q, data, len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct world *w = world();

	as_query(w, data, len);
	as_name(w, data, len);
	as_answer(w, data, len);
	return 0;
}
