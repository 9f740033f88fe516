#include "dns/answer/zone_answer.h"

#include <errno.h>
#include <string.h>

#include "base/core/sock.h"

enum {
	NEGATIVE_TTL_S = 5, /* so that a node that joins a moment later is found soon */
	SOA_FIXED = 20,
	NAME_LEAST = 2, /* the shortest label below the zone, in wire form */
};

int
name_zone_init(struct name_zone *z, const char *domain, uint32_t ttl_s)
{
	size_t len = dns_name_from_text(z->name, domain);

	if (len < 2 || len + NAME_LEAST + sizeof "hostmaster" > DNS_NAME_MAX)
		return -EINVAL;
	z->name_len = (uint8_t)len;
	z->n_labels = 0;
	for (size_t at = 0; z->name[at] != 0; at += z->name[at] + 1u)
		z->n_labels++;
	z->ttl_s = ttl_s;
	z->address = in6addr_any;
	return 0;
}

bool
name_zone_holds(const struct name_zone *z, const char *name)
{
	uint8_t wire[DNS_NAME_MAX];
	size_t len = dns_name_from_text(wire, name);

	return len > 1 && len - 1 + z->name_len <= DNS_NAME_MAX;
}

/* --- what is asked for ---------------------------------------------------------------------- */

/* The characters of a host name; others, above all a dot within a label, would read as another
 * name. */
static bool
is_plain(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The first n labels of the question as text; false when one of them cannot be part of a name. */
static bool
read_labels(const struct dns_query *q, unsigned n, char *to)
{
	size_t len = 0;

	for (unsigned i = 0; i < n; i++) {
		const uint8_t *at = q->name + q->label[i];

		if (i > 0)
			to[len++] = '.';
		for (uint8_t k = 1; k <= at[0]; k++) {
			if (!is_plain(at[k]))
				return false;
			to[len++] = (char)at[k];
		}
	}
	to[len] = '\0';
	return true;
}

static bool
is_in_zone(const struct name_zone *z, const struct dns_query *q)
{
	size_t at;

	if (q->n_labels < z->n_labels)
		return false;
	at = q->label[q->n_labels - z->n_labels];
	return q->name_len - at == z->name_len && memcmp(q->name + at, z->name, z->name_len) == 0;
}

bool
name_zone_read(const struct name_zone *z, const struct dns_query *q, struct name_asked *asked)
{
	*asked = (struct name_asked){.refused = DNS_NOERROR};
	if (q->class != DNS_CLASS_IN || q->type == DNS_IXFR || q->type == DNS_AXFR ||
		!is_in_zone(z, q))
		asked->refused = DNS_REFUSED;
	else if (q->type == 0 || q->type == DNS_OPT)
		asked->refused = DNS_FORMERR;
	else if (q->type >= DNS_TKEY && q->type < DNS_IXFR)
		asked->refused = DNS_NOTIMP;
	if (asked->refused != DNS_NOERROR)
		return false;
	asked->impossible = !read_labels(q, q->n_labels - z->n_labels, asked->name);
	return true;
}

/* --- answers -------------------------------------------------------------------------------- */

/* One answer under way. */
struct reply {
	const struct name_zone *z;
	const struct dns_query *q;
	const struct name_found *found;
	struct dns_writer w;
};

/* Offset of the zone's name in the question. */
static uint16_t
zone_at(const struct reply *r)
{
	return (uint16_t)(DNS_HEADER + r->q->label[r->q->n_labels - r->z->n_labels]);
}

static size_t
put_below(const struct reply *r, uint8_t *to, const char *label)
{
	size_t len = strlen(label);

	to[0] = (uint8_t)len;
	memcpy(to + 1, label, len);
	dns_put16(to + 1 + len, 0xc000u | zone_at(r));
	return len + 3;
}

static void
put_soa(struct reply *r)
{
	uint8_t d[64];
	uint32_t ttl = MIN(r->z->ttl_s, (uint32_t)NEGATIVE_TTL_S);
	size_t n = put_below(r, d, "ns");

	n += put_below(r, d + n, "hostmaster");
	dns_put32(d + n, r->found->serial);
	dns_put32(d + n + 4, 7200);
	dns_put32(d + n + 8, 1800);
	dns_put32(d + n + 12, 86400);
	dns_put32(d + n + 16, ttl);
	dns_reply_record(&r->w, zone_at(r), DNS_SOA, ttl, d, n + SOA_FIXED);
}

static void
zone_answer_start(struct reply *r, struct dns_out *out, enum dns_rcode rcode)
{
	dns_reply_start(&r->w, out->bytes, out->size, r->q, rcode, true);
}

static void
put_negative(struct reply *r, struct dns_out *out, enum dns_rcode rcode)
{
	zone_answer_start(r, out, rcode);
	dns_reply_section(&r->w, DNS_SECTION_AUTHORITY);
	put_soa(r);
}

static bool
zone_answer_asks(const struct reply *r, enum dns_type type)
{
	return r->q->type == type || r->q->type == DNS_ANY;
}

static void
put_apex(struct reply *r, struct dns_out *out)
{
	uint8_t d[8];

	if (!zone_answer_asks(r, DNS_SOA) && r->q->type != DNS_NS) {
		put_negative(r, out, DNS_NOERROR);
		return;
	}
	zone_answer_start(r, out, DNS_NOERROR);
	if (r->q->type == DNS_NS)
		dns_reply_record(&r->w, DNS_OWNER, DNS_NS, r->z->ttl_s, d, put_below(r, d, "ns"));
	else
		put_soa(r);
}

static bool
is_wanted(const struct reply *r, const struct in6_addr *a)
{
	return zone_answer_asks(r, IN6_IS_ADDR_V4MAPPED(a) ? DNS_A : DNS_AAAA);
}

static void
put_address(struct reply *r, const struct in6_addr *a)
{
	if (IN6_IS_ADDR_V4MAPPED(a))
		dns_reply_record(&r->w, DNS_OWNER, DNS_A, r->z->ttl_s, a->s6_addr + 12, 4);
	else
		dns_reply_record(&r->w, DNS_OWNER, DNS_AAAA, r->z->ttl_s, a, sizeof *a);
}

/* Rotates the first address, since many clients take only that one. */
static void
put_addresses(struct reply *r, struct dns_out *out)
{
	const struct name_found *f = r->found;
	size_t any = 0;

	for (size_t i = 0; i < f->n; i++)
		any += is_wanted(r, &f->addresses[i]);
	if (any == 0) {
		put_negative(r, out, DNS_NOERROR);
		return;
	}
	zone_answer_start(r, out, DNS_NOERROR);
	for (size_t i = 0; i < f->n; i++) {
		const struct in6_addr *a = &f->addresses[(i + r->q->id) % f->n];

		if (is_wanted(r, a))
			put_address(r, a);
	}
}

/* ns.<zone> exists because the NS record names it, unless a node has that name. */
static void
put_server(struct reply *r, struct dns_out *out)
{
	const struct in6_addr *a = &r->z->address;

	if (!is_wanted(r, a) || IN6_IS_ADDR_UNSPECIFIED(a) ||
		(IN6_IS_ADDR_V4MAPPED(a) && ip_to_v4(a) == INADDR_ANY)) {
		put_negative(r, out, DNS_NOERROR);
		return;
	}
	zone_answer_start(r, out, DNS_NOERROR);
	put_address(r, a);
}

/* The writer sets the flags of a resolver; this server does not recurse. */
static void
zone_answer_finish(struct dns_writer *w, struct dns_out *out)
{
	out->len = dns_reply_finish(w);
	out->bytes[3] &= (uint8_t)~DNS_FLAG_RA;
}

void
name_zone_error(const struct dns_query *q, enum dns_rcode rcode, struct dns_out *out)
{
	struct dns_writer w;

	dns_reply_start(&w, out->bytes, out->size, q, rcode, false);
	zone_answer_finish(&w, out);
}

void
name_zone_write(const struct name_zone *z, const struct dns_query *q,
	const struct name_asked *asked, const struct name_found *found, struct dns_out *out)
{
	struct reply r = {.z = z, .q = q, .found = found};

	if (asked->refused != DNS_NOERROR || found->is == NAME_UNKNOWN) {
		name_zone_error(
			q, asked->refused != DNS_NOERROR ? asked->refused : DNS_SERVFAIL, out);
		return;
	}
	if (asked->impossible)
		put_negative(&r, out, DNS_NXDOMAIN);
	else if (asked->name[0] == '\0')
		put_apex(&r, out);
	else if (found->is == NAME_THERE)
		put_addresses(&r, out);
	else if (strcmp(asked->name, "ns") == 0)
		put_server(&r, out);
	else
		put_negative(&r, out, found->is == NAME_ABOVE ? DNS_NOERROR : DNS_NXDOMAIN);
	zone_answer_finish(&r.w, out);
}
