#include "dns/forward/rewrite.h"

#include <assert.h>
#include <string.h>

size_t
dns_forward_build(
	uint8_t out[DNS_FORWARD_MAX], const struct dns_query *q, const struct dns_target *target)
{
	size_t len = DNS_HEADER;

	memset(out, 0, DNS_HEADER);
	dns_put16(out, q->id);
	dns_put16(out + 2, q->flags & (DNS_FLAG_RD | DNS_FLAG_AD | DNS_FLAG_CD));
	dns_put16(out + 4, 1);
	dns_put16(out + 10, 1);
	if (target != NULL) {
		memcpy(out + len, target->name, target->len);
		len += target->len;
		dns_put16(out + len, q->type);
		dns_put16(out + len + 2, DNS_CLASS_IN);
		len += 4;
	} else {
		memcpy(out + len, q->bytes + len, q->question_end - len);
		len = q->question_end;
	}
	return len + dns_put_opt(out + len, 0, q->edns_do);
}

void
dns_forward_mix(uint8_t *query, size_t len, const uint8_t case_bits[DNS_COINS])
{
	size_t end = dns_name_skip(query, len, DNS_HEADER);

	/* Length octets are below 64: no letters. */
	for (size_t i = DNS_HEADER; i < end; i++) {
		size_t n = i - DNS_HEADER;
		uint8_t low = query[i] | 0x20;

		if (low >= 'a' && low <= 'z')
			query[i] = case_bits[n / 8 % DNS_COINS] >> n % 8 & 1 ? low ^ 0x20 : low;
	}
}

bool
dns_forward_same(const uint8_t *answer, size_t len, const uint8_t *sent, size_t sent_len)
{
	size_t end = dns_name_skip(sent, sent_len, DNS_HEADER);

	return end > 0 && len >= end + 4 && sent_len >= end + 4 &&
		memcmp(answer + DNS_HEADER, sent + DNS_HEADER, end + 4 - DNS_HEADER) == 0;
}

bool
dns_forward_sound(const uint8_t *answer, size_t len)
{
	size_t at = len >= DNS_HEADER ? dns_name_skip(answer, len, DNS_HEADER) : 0;
	unsigned n;

	if (at == 0 || len - at < 4 || dns_get16(answer + 4) != 1)
		return false;
	at += 4;
	n = dns_get16(answer + 6) + dns_get16(answer + 8) + dns_get16(answer + 10);
	for (unsigned i = 0; i < n; i++) {
		uint8_t owner[DNS_NAME_MAX];
		struct dns_record rr;
		size_t end;

		if (!dns_record_read(&rr, answer, len, at) ||
			dns_name_expand(owner, answer, len, at, &end) == 0)
			return false;
		at = rr.end;
	}
	return true;
}

struct copy {
	uint8_t *out;
	size_t size, used;
	uint16_t counts[3];
	bool moved; /* an OPT was left out: the offsets behind it have changed */
	bool full;
};

/* Pointers stay correct because nothing in front of them moves: only an OPT is left out, no pointer
 * points into one, and what follows it (TSIG, SIG(0)) is meant for us and not for the client. */
static void
copy_record(struct copy *c, unsigned section, const uint8_t *answer, const struct dns_record *rr)
{
	if (rr->type == DNS_OPT)
		c->moved = true;
	if (c->moved || c->full)
		return;
	if (rr->end > c->size) {
		c->full = true;
		if (section < DNS_SECTION_ADDITIONAL)
			c->out[2] |= DNS_FLAG_TC >> 8;
		return;
	}
	memcpy(c->out + rr->start, answer + rr->start, rr->end - rr->start);
	c->used = rr->end;
	c->counts[section]++;
}

static bool
copy_sections(struct copy *c, const uint8_t *answer, size_t len)
{
	size_t at = c->used;

	for (unsigned section = 0; section < 3; section++) {
		unsigned n = dns_get16(answer + 6 + 2 * section);

		for (unsigned i = 0; i < n; i++) {
			struct dns_record rr;

			if (!dns_record_read(&rr, answer, len, at))
				return false;
			at = rr.end;
			copy_record(c, section, answer, &rr);
		}
	}
	return true;
}

/* Whether `answer` is a response to the question that begins at `question`. */
static bool
answers_question(
	const uint8_t *answer, size_t len, const uint8_t *name, size_t name_len, uint16_t type)
{
	return len >= DNS_HEADER + name_len + 4 && (answer[2] & 0x80) &&
		dns_get16(answer + 4) == 1 && dns_name_equal(answer + DNS_HEADER, name, name_len) &&
		dns_get16(answer + DNS_HEADER + name_len) == type &&
		dns_get16(answer + DNS_HEADER + name_len + 2) == DNS_CLASS_IN;
}

static unsigned
flags_for_client(const struct dns_query *q, const uint8_t *answer)
{
	unsigned flags = dns_get16(answer + 2) &
		(DNS_FLAG_QR | DNS_FLAG_AA | DNS_FLAG_TC | DNS_FLAG_AD | 15u);

	/* A client that did not ask for it does not get the AD bit, "authentic data" (RFC 6840
	 * 5.8). */
	if (!q->edns_do && !(q->flags & DNS_FLAG_AD))
		flags &= ~(unsigned)DNS_FLAG_AD;
	return flags | DNS_FLAG_RA | (q->flags & (DNS_FLAG_RD | DNS_FLAG_CD));
}

bool
dns_forward_answer(
	struct dns_out *out, const struct dns_query *q, const uint8_t *answer, size_t len)
{
	uint8_t *m = out->bytes;
	size_t end = q->question_end;
	struct copy c = {.out = m, .size = out->size - dns_reply_opt_bytes(q), .used = end};

	assert(out->size >= DNS_UDP_PLAIN);
	if (!answers_question(answer, len, q->name, q->name_len, q->type))
		return false;
	dns_put16(m, q->id);
	dns_put16(m + 2, flags_for_client(q, answer));
	dns_put16(m + 4, 1);
	memcpy(m + DNS_HEADER, q->bytes + DNS_HEADER, end - DNS_HEADER);
	if (!copy_sections(&c, answer, len))
		return false;
	if (q->edns) {
		c.used += dns_put_reply_opt(m + c.used, 0, q);
		c.counts[DNS_SECTION_ADDITIONAL]++;
	}
	for (unsigned i = 0; i < 3; i++)
		dns_put16(m + 6 + 2 * i, c.counts[i]);
	out->len = c.used;
	return true;
}

/* Hides the random case in which upstream was asked (0x20): the suffix that a name shares with the
 * target takes the target's spelling. */
static void
spell_like(const struct dns_target *target, uint8_t *name, size_t len)
{
	for (size_t at = 0; at < len; at += name[at] + 1u) {
		size_t n = len - at;
		const uint8_t *tail = target->name + target->len - MIN(n, (size_t)target->len);

		if (n > target->len || !dns_name_equal(name + at, tail, n))
			continue;
		memcpy(name + at, tail, n);
		return;
	}
}

/* Following the aliases in the target's answer: its `n` records are in [at, len). */
struct chase {
	const struct dns_target *target;
	const uint8_t *m;
	size_t len, at;
	unsigned n;
	uint16_t type; /* asked for */
	size_t name_len;
	uint8_t name[DNS_NAME_MAX]; /* the chain was followed up to this name */
};

enum found { FOUND, NOT_FOUND, MALFORMED };

/* The next record of class IN and of this type whose owner is the chain's current name; *at and
 * *left move past it. */
static enum found
next_owned(const struct chase *c, uint16_t type, size_t *at, unsigned *left, struct dns_record *rr)
{
	while (*left > 0) {
		uint8_t owner[DNS_NAME_MAX];
		size_t end, len;

		if (!dns_record_read(rr, c->m, c->len, *at))
			return MALFORMED;
		*at = rr->end;
		(*left)--;
		if (rr->type != type || rr->class != DNS_CLASS_IN)
			continue;
		len = dns_name_expand(owner, c->m, c->len, rr->start, &end);
		if (len == 0)
			return MALFORMED;
		if (len == c->name_len && dns_name_equal(owner, c->name, len))
			return FOUND;
	}
	return NOT_FOUND;
}

/* Follows one alias. */
static enum found
rewrite_follow(struct chase *c, struct dns_writer *w)
{
	uint8_t alias[DNS_NAME_MAX];
	struct dns_record rr;
	unsigned left = c->n;
	size_t len, end, at = c->at;
	enum found found = next_owned(c, DNS_CNAME, &at, &left, &rr);

	if (found != FOUND)
		return found;
	len = dns_name_expand(alias, c->m, rr.end, rr.data, &end);
	if (len == 0 || end != rr.end)
		return MALFORMED;
	spell_like(c->target, alias, len);
	dns_reply_named(w, c->name, DNS_CNAME, dns_ttl_s(rr.ttl_s), alias, len);
	memcpy(c->name, alias, len);
	c->name_len = len;
	return FOUND;
}

/* The addresses at the chain's end; records of other owners are not passed on (RFC 2181 5.4.1). */
static enum found
put_addresses(const struct chase *c, struct dns_writer *w)
{
	size_t wanted = c->type == DNS_A ? 4 : 16, at = c->at;
	unsigned left = c->n;
	struct dns_record rr;
	enum found found;

	if (c->type != DNS_A && c->type != DNS_AAAA)
		return NOT_FOUND;
	while ((found = next_owned(c, c->type, &at, &left, &rr)) == FOUND) {
		if (rr.data_len == wanted)
			dns_reply_named(w, c->name, rr.type, dns_ttl_s(rr.ttl_s), c->m + rr.data,
				rr.data_len);
	}
	return found;
}

bool
dns_chase_answer(struct dns_out *out, const struct dns_query *q, const struct dns_target *target,
	uint32_t ttl_s, const uint8_t *answer, size_t len)
{
	struct chase c = {.target = target,
		.m = answer,
		.len = len,
		.at = DNS_HEADER + target->len + 4u,
		.type = q->type,
		.name_len = target->len};
	enum found found = FOUND;
	struct dns_writer w;

	if (!answers_question(answer, len, target->name, target->len, q->type))
		return false;
	c.n = dns_get16(answer + 6);
	memcpy(c.name, target->name, target->len);
	/* The rcode is that of the last name (RFC 6604). */
	dns_reply_start(&w, out->bytes, out->size, q, (enum dns_rcode)(answer[3] & 15), false);
	dns_reply_record(&w, DNS_OWNER, DNS_CNAME, ttl_s, target->name, target->len);
	for (unsigned i = 0; i <= DNS_CHAIN_MAX && found == FOUND; i++)
		found = rewrite_follow(&c, &w);
	/* Malformed, or the chain is too long or a loop. */
	if (found != NOT_FOUND || put_addresses(&c, &w) == MALFORMED)
		return false;
	out->len = dns_reply_finish(&w);
	return true;
}
