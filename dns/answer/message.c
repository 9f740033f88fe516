#include "dns/answer/message.h"

#include <assert.h>
#include <string.h>

enum { LABEL_MAX = 63, POINTER = 0xc0, RR_FIXED = 10 };

static uint8_t
message_lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/* --- names ---------------------------------------------------------------------------------- */

size_t
dns_name_from_text(uint8_t to[DNS_NAME_MAX], const char *text)
{
	size_t len = 0;

	if (strcmp(text, ".") == 0)
		text++;
	while (*text != '\0') {
		size_t n = strcspn(text, ".");

		if (n == 0 || n > LABEL_MAX || len + n + 2 > DNS_NAME_MAX)
			return 0;
		to[len++] = (uint8_t)n;
		for (size_t i = 0; i < n; i++)
			to[len++] = message_lower((uint8_t)text[i]);
		text += n;
		if (*text == '.')
			text++;
	}
	to[len++] = 0;
	return len;
}

size_t
dns_name_expand(uint8_t to[DNS_NAME_MAX], const uint8_t *m, size_t len, size_t at, size_t *end)
{
	size_t n = 0, before = at, limit = len;
	bool jumped = false;

	for (;;) {
		uint8_t c;

		if (at >= limit)
			return 0;
		c = m[at];
		if ((c & POINTER) == POINTER) {
			size_t target;

			if (at + 2 > limit)
				return 0;
			target = dns_get16(m + at) & 0x3fffu;
			if (!jumped)
				*end = at + 2;
			jumped = true;
			if (target < DNS_HEADER || target >= before)
				return 0;
			limit = before; /* an earlier name ends before this one begins */
			at = before = target;
			continue;
		}
		if (c > LABEL_MAX || at + 1 + c > limit || n + 1 + c > DNS_NAME_MAX)
			return 0;
		memcpy(to + n, m + at, 1u + c);
		n += 1u + c;
		at += 1u + c;
		if (c == 0)
			break;
	}
	if (!jumped)
		*end = at;
	return n;
}

size_t
dns_name_skip(const uint8_t *m, size_t len, size_t at)
{
	while (at < len) {
		uint8_t c = m[at];

		if ((c & POINTER) == POINTER)
			return at + 2 <= len ? at + 2 : 0;
		if (c > LABEL_MAX)
			return 0;
		at += 1u + c;
		if (c == 0)
			return at <= len ? at : 0;
	}
	return 0;
}

bool
dns_name_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
	/* Length octets are below 'A', so folding the whole wire form leaves them unchanged. */
	for (size_t i = 0; i < len; i++) {
		if (message_lower(a[i]) != message_lower(b[i]))
			return false;
	}
	return true;
}

bool
dns_record_read(struct dns_record *rr, const uint8_t *m, size_t len, size_t at)
{
	size_t p = dns_name_skip(m, len, at);

	if (p == 0 || len - p < RR_FIXED)
		return false;
	rr->start = at;
	rr->type = dns_get16(m + p);
	rr->class = dns_get16(m + p + 2);
	rr->ttl_s = (uint32_t)dns_get16(m + p + 4) << 16 | dns_get16(m + p + 6);
	rr->data_len = dns_get16(m + p + 8);
	rr->data = p + RR_FIXED;
	if (len - rr->data < rr->data_len)
		return false;
	rr->end = rr->data + rr->data_len;
	return true;
}

/* --- queries -------------------------------------------------------------------------------- */

/* The question's name: no pointers, because no name precedes it. */
static size_t
parse_name(struct dns_query *q, const uint8_t *m, size_t len)
{
	size_t at = DNS_HEADER, n = 0;

	q->n_labels = 0;
	for (;;) {
		uint8_t c;

		if (at >= len)
			return 0;
		c = m[at];
		if (c > LABEL_MAX || at + 1 + c > len || n + 1 + c > DNS_NAME_MAX)
			return 0;
		if (c != 0)
			q->label[q->n_labels++] = (uint8_t)n;
		q->name[n++] = c;
		for (size_t i = 1; i <= c; i++)
			q->name[n++] = message_lower(m[at + i]);
		at += 1u + c;
		if (c == 0)
			break;
	}
	q->name_len = (uint8_t)n;
	return at;
}

static enum dns_parse
message_refuse(struct dns_query *q, enum dns_rcode rcode)
{
	q->rcode = (uint8_t)rcode;
	return DNS_PARSE_REFUSE;
}

/* The client cookie alone, or with a server cookie of 8 to 32 octets (RFC 7873 4); only the first
 * option counts. */
static bool
parse_cookie(struct dns_query *q, const uint8_t *data, size_t len)
{
	if (len != DNS_COOKIE_CLIENT && (len < 16 || len > 40))
		return false;
	if (q->cookie_len == 0)
		memcpy(q->cookie, data, DNS_COOKIE_CLIENT);
	q->cookie_len = DNS_COOKIE_CLIENT;
	return true;
}

static bool
parse_opt(struct dns_query *q, const struct dns_record *rr, unsigned *version)
{
	/* At most one OPT, owned by the root (RFC 6891 6.1.1); malformed options make the message
	 * malformed. */
	if (q->edns || q->bytes[rr->start] != 0)
		return false;
	for (size_t at = rr->data, len; at < rr->end; at += 4 + len) {
		if (rr->end - at < 4)
			return false;
		len = dns_get16(q->bytes + at + 2);
		if (rr->end - at - 4 < len)
			return false;
		if (dns_get16(q->bytes + at) == DNS_OPTION_COOKIE &&
			!parse_cookie(q, q->bytes + at + 4, len))
			return false;
	}
	q->edns = true;
	q->edns_do = (rr->ttl_s & DNS_EDNS_DO) != 0;
	q->udp_size = MIN(MAX(rr->class, DNS_UDP_PLAIN), DNS_UDP_MAX);
	*version = rr->ttl_s >> 16 & 0xff;
	return true;
}

/* Parses everything behind the question: records are skipped, OPT is read. */
static enum dns_parse
parse_records(struct dns_query *q)
{
	size_t before = (size_t)dns_get16(q->bytes + 6) + dns_get16(q->bytes + 8);
	size_t all = before + dns_get16(q->bytes + 10);
	size_t at = q->question_end;
	unsigned version = 0;

	for (size_t i = 0; i < all; i++) {
		struct dns_record rr;

		if (!dns_record_read(&rr, q->bytes, q->len, at))
			return message_refuse(q, DNS_FORMERR);
		at = rr.end;
		if (rr.type == DNS_OPT && (i < before || !parse_opt(q, &rr, &version)))
			return message_refuse(q, DNS_FORMERR);
	}
	if (at != q->len)
		return message_refuse(q, DNS_FORMERR);
	return version > 0 ? message_refuse(q, DNS_BADVERS) : DNS_PARSE_OK;
}

enum dns_parse
dns_query_parse(struct dns_query *q, const uint8_t *m, size_t len)
{
	size_t at;

	if (len < DNS_HEADER || len > DNS_MESSAGE_MAX || (m[2] & 0x80))
		return DNS_PARSE_DROP;
	q->bytes = m;
	q->len = len;
	q->id = dns_get16(m);
	q->flags = dns_get16(m + 2);
	q->question_end = DNS_HEADER;
	q->edns = q->edns_do = false;
	q->cookie_len = 0;
	q->udp_size = DNS_UDP_PLAIN;
	q->n_labels = 0;
	q->name_len = 0;
	q->type = q->class = 0;
	if ((q->flags >> 11 & 15) != 0)
		return message_refuse(q, DNS_NOTIMP);
	if (dns_get16(m + 4) != 1)
		return message_refuse(q, DNS_FORMERR);
	at = parse_name(q, m, len);
	if (at == 0 || len - at < 4)
		return message_refuse(q, DNS_FORMERR);
	q->type = dns_get16(m + at);
	q->class = dns_get16(m + at + 2);
	q->question_end = (uint16_t)(at + 4);
	return parse_records(q);
}

/* --- answers -------------------------------------------------------------------------------- */

size_t
dns_reply_limit(const struct dns_query *q)
{
	return q->udp_size;
}

void
dns_reply_start(struct dns_writer *w, uint8_t *out, size_t size, const struct dns_query *q,
	enum dns_rcode rcode, bool authoritative)
{
	unsigned flags = DNS_FLAG_QR | DNS_FLAG_RA;

	assert(size >= DNS_UDP_PLAIN);
	/* Opcode, RD and CD are copied from the query (RFC 1035 4.1.1, RFC 4035 3.1.6). */
	flags |= q->flags & (0x7800 | DNS_FLAG_RD | DNS_FLAG_CD);
	if (authoritative)
		flags |= DNS_FLAG_AA;
	memset(w, 0, sizeof *w);
	w->out = out;
	w->query = q;
	w->size = size - dns_reply_opt_bytes(q);
	w->rcode = (uint8_t)rcode;
	w->len = q->question_end;
	dns_put16(out, q->id);
	dns_put16(out + 2, flags | (rcode & 15));
	dns_put16(out + 4, q->question_end > DNS_HEADER ? 1 : 0);
	if (q->question_end > DNS_HEADER)
		memcpy(out + DNS_HEADER, q->bytes + DNS_HEADER,
			q->question_end - (size_t)DNS_HEADER);
}

void
dns_reply_section(struct dns_writer *w, unsigned section)
{
	assert(section >= w->section && section <= DNS_SECTION_ADDITIONAL);
	w->section = (uint8_t)section;
}

static bool
message_room(struct dns_writer *w, size_t n)
{
	if (w->truncated)
		return false;
	if (w->size - w->len >= n)
		return true;
	w->truncated = true;
	if (w->section != DNS_SECTION_ADDITIONAL)
		w->out[2] |= DNS_FLAG_TC >> 8;
	return false;
}

static void
put_record(struct dns_writer *w, uint16_t type, uint32_t ttl_s, const void *data, size_t len)
{
	uint8_t *p = w->out + w->len;

	dns_put16(p, type);
	dns_put16(p + 2, DNS_CLASS_IN);
	dns_put32(p + 4, ttl_s);
	dns_put16(p + 8, (unsigned)len);
	memcpy(p + RR_FIXED, data, len);
	w->len += RR_FIXED + len;
	w->counts[w->section]++;
}

void
dns_reply_record(struct dns_writer *w, uint16_t owner, uint16_t type, uint32_t ttl_s,
	const void *data, size_t len)
{
	if (!message_room(w, 2 + RR_FIXED + len))
		return;
	dns_put16(w->out + w->len, POINTER << 8 | owner);
	w->len += 2;
	put_record(w, type, ttl_s, data, len);
}

void
dns_reply_named(struct dns_writer *w, const uint8_t *owner, uint16_t type, uint32_t ttl_s,
	const void *data, size_t len)
{
	size_t owner_len = dns_name_skip(owner, DNS_NAME_MAX, 0);

	assert(owner_len > 0);
	if (!message_room(w, owner_len + RR_FIXED + len))
		return;
	memcpy(w->out + w->len, owner, owner_len);
	w->len += owner_len;
	put_record(w, type, ttl_s, data, len);
}

void
dns_reply_a(struct dns_writer *w, uint16_t owner, uint32_t ttl_s, uint32_t address)
{
	uint8_t data[4];

	dns_put32(data, address);
	dns_reply_record(w, owner, DNS_A, ttl_s, data, sizeof data);
}

size_t
dns_put_opt(uint8_t *p, unsigned rcode, bool edns_do)
{
	p[0] = 0;
	dns_put16(p + 1, DNS_OPT);
	dns_put16(p + 3, DNS_UDP_MAX);
	p[5] = (uint8_t)(rcode >> 4);
	p[6] = 0;
	dns_put16(p + 7, edns_do ? DNS_EDNS_DO : 0);
	dns_put16(p + 9, 0);
	return DNS_OPT_BYTES;
}

size_t
dns_reply_opt_bytes(const struct dns_query *q)
{
	if (!q->edns)
		return 0;
	return DNS_OPT_BYTES + (q->cookie_len == DNS_COOKIE_BYTES ? 4u + DNS_COOKIE_BYTES : 0u);
}

size_t
dns_put_reply_opt(uint8_t *p, unsigned rcode, const struct dns_query *q)
{
	size_t len = dns_reply_opt_bytes(q);

	if (len == 0)
		return 0;
	dns_put_opt(p, rcode, q->edns_do);
	if (len == DNS_OPT_BYTES)
		return len;
	dns_put16(p + 9, 4 + DNS_COOKIE_BYTES);
	dns_put16(p + 11, DNS_OPTION_COOKIE);
	dns_put16(p + 13, DNS_COOKIE_BYTES);
	memcpy(p + 15, q->cookie, DNS_COOKIE_BYTES);
	return len;
}

size_t
dns_reply_finish(struct dns_writer *w)
{
	if (w->query->edns) {
		w->len += dns_put_reply_opt(w->out + w->len, w->rcode, w->query);
		w->counts[DNS_SECTION_ADDITIONAL]++;
	}
	for (unsigned i = 0; i < 3; i++)
		dns_put16(w->out + 6 + 2 * i, w->counts[i]);
	return w->len;
}

size_t
dns_reply_error(uint8_t *out, size_t size, const struct dns_query *q, enum dns_rcode rcode)
{
	struct dns_writer w;

	dns_reply_start(&w, out, size, q, rcode, false);
	return dns_reply_finish(&w);
}
