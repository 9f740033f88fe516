#include "dns/answer/answer_private.h"

#include <errno.h>
#include <string.h>

#include "model/mesh.h"
#include "model/pod_name.h"

enum {
	NEGATIVE_TTL_S = 5, /* so that a service created a moment later is found soon */
	SERVICE_NAME = 2 * (MESH_NAME_MAX + 1) + 4, /* <service>.<namespace>.svc. in wire form */
	SOA_FIXED = 20,
	SVC_LABELS = 6, /* of <service>.<namespace>.svc: length octets, and "svc" */
};

#define SPEC_VERSION "1.1.0"

int
dns_zone_init(struct dns_zone *z, const char *domain, uint32_t ttl_s)
{
	size_t len = dns_name_from_text(z->name, domain);

	if (len < 2 || len + SERVICE_NAME > DNS_NAME_MAX)
		return -EINVAL;
	z->name_len = (uint8_t)len;
	z->ttl_s = ttl_s;
	z->address = 0;
	z->address6 = in6addr_any;
	z->subnet = z->mask = 0;
	z->subnet6.bits = 0;
	return 0;
}

/* --- names ---------------------------------------------------------------------------------- */

const char *
answer_label(const struct ask *a, unsigned i, size_t *len)
{
	const uint8_t *at = a->q->name + a->q->label[a->n - i];

	*len = at[0];
	return (const char *)at + 1;
}

bool
answer_label_is(const struct ask *a, unsigned i, const char *text)
{
	size_t len;
	const char *at = answer_label(a, i, &len);

	return len == strlen(text) && memcmp(at, text, len) == 0;
}

uint16_t
answer_name_at(const struct ask *a, unsigned i)
{
	return (uint16_t)(DNS_HEADER + a->q->label[a->n - i]);
}

size_t
answer_put_label(uint8_t *to, const char *text, size_t len)
{
	to[0] = (uint8_t)len;
	memcpy(to + 1, text, len);
	return len + 1;
}

size_t
answer_put_service(uint8_t to[DNS_NAME_MAX], const struct dns_zone *z, const struct service *svc)
{
	size_t name = strlen(svc->name), ns = strlen(svc->namespace), n = 0;
	const char *dot = strchr(svc->name, '.');
	size_t first = dot != NULL ? (size_t)(dot - svc->name) : name;
	const char *kind = "svc";

	/* With a long hostname and a long domain the name may be too long to exist. */
	if (name > MESH_SERVICE_MAX || first > MESH_NAME_MAX || name - first > MESH_NAME_MAX + 1 ||
		ns > MESH_NAME_MAX || name + ns + SVC_LABELS + z->name_len > DNS_NAME_MAX)
		return 0;
	n = answer_put_label(to, svc->name, first);
	if (dot != NULL && strcmp(dot, POD_NAME_SUFFIX) == 0) {
		dot = NULL;
		kind = "pod";
	}
	if (dot != NULL)
		n += answer_put_label(to + n, dot + 1, name - first - 1);
	n += answer_put_label(to + n, svc->namespace, ns);
	n += answer_put_label(to + n, kind, 3);
	memcpy(to + n, z->name, z->name_len);
	return n + z->name_len;
}

int
answer_labels_in_zone(const struct dns_zone *z, const uint8_t *name, size_t len)
{
	size_t at = 0;
	int n = 0;

	while (len - at > z->name_len) {
		at += name[at] + 1u;
		n++;
	}
	return len - at == z->name_len && dns_name_equal(name + at, z->name, z->name_len) ? n : -1;
}

/* --- answers -------------------------------------------------------------------------------- */

/* The cluster domain: the end of the question's name, except in the reverse zone. */
static size_t
put_domain(const struct ask *a, uint8_t *to)
{
	if (a->reverse) {
		memcpy(to, a->z->name, a->z->name_len);
		return a->z->name_len;
	}
	dns_put16(to, 0xc000u | answer_name_at(a, 0));
	return 2;
}

static size_t
put_server(const struct ask *a, uint8_t *to)
{
	size_t n = answer_put_label(to, "ns", 2);

	n += answer_put_label(to + n, "dns", 3);
	return n + put_domain(a, to + n);
}

void
answer_put_soa(const struct ask *a, struct dns_writer *w)
{
	uint8_t d[2 * DNS_NAME_MAX + SOA_FIXED];
	uint32_t ttl = MIN(a->z->ttl_s, (uint32_t)NEGATIVE_TTL_S);
	size_t n = put_server(a, d);

	n += answer_put_label(d + n, "hostmaster", 10);
	n += put_domain(a, d + n);
	dns_put32(d + n, (uint32_t)snapshot_version(a->s));
	dns_put32(d + n + 4, 7200);
	dns_put32(d + n + 8, 1800);
	dns_put32(d + n + 12, 86400);
	dns_put32(d + n + 16, ttl);
	dns_reply_record(w, answer_name_at(a, 0), DNS_SOA, ttl, d, n + SOA_FIXED);
}

enum dns_verdict
answer_finish(struct ask *a, struct dns_writer *w)
{
	a->out->len = dns_reply_finish(w);
	return DNS_ANSWERED;
}

enum dns_verdict
answer_fail(struct ask *a, enum dns_rcode rcode)
{
	a->out->len = dns_reply_error(a->out->bytes, a->out->size, a->q, rcode);
	return DNS_ANSWERED;
}

void
answer_begin(struct ask *a, struct dns_writer *w)
{
	dns_reply_start(w, a->out->bytes, a->out->size, a->q, DNS_NOERROR, true);
}

enum dns_verdict
answer_negative(struct ask *a, enum dns_rcode rcode)
{
	struct dns_writer w;

	dns_reply_start(&w, a->out->bytes, a->out->size, a->q, rcode, true);
	dns_reply_section(&w, DNS_SECTION_AUTHORITY);
	answer_put_soa(a, &w);
	return answer_finish(a, &w);
}

bool
answer_asks(const struct ask *a, enum dns_type type)
{
	return a->q->type == type || a->q->type == DNS_ANY;
}

struct in6_addr
answer_fake6(const struct ask *a, const struct service *svc)
{
	return a->z->subnet6.bits == 0 || IN6_IS_ADDR_UNSPECIFIED(&a->z->address6) ||
			svc->ipv4_alone
		? in6addr_any
		: fake6_of(&a->z->subnet6, svc->fake_ip);
}

enum dns_verdict
answer_address(struct ask *a, uint32_t ip, const struct in6_addr *ip6)
{
	bool four = answer_asks(a, DNS_A) && ip != 0;
	bool six = answer_asks(a, DNS_AAAA) && !IN6_IS_ADDR_UNSPECIFIED(ip6);
	struct dns_writer w;

	if (!four && !six)
		return answer_negative(a, DNS_NOERROR);
	answer_begin(a, &w);
	if (four)
		dns_reply_a(&w, DNS_OWNER, a->z->ttl_s, ip);
	if (six)
		dns_reply_record(&w, DNS_OWNER, DNS_AAAA, a->z->ttl_s, ip6, sizeof *ip6);
	return answer_finish(a, &w);
}

enum dns_verdict
answer_apex(struct ask *a)
{
	struct dns_writer w;
	uint8_t ns[DNS_NAME_MAX];

	if (!answer_asks(a, DNS_SOA) && a->q->type != DNS_NS)
		return answer_negative(a, DNS_NOERROR);
	answer_begin(a, &w);
	if (a->q->type != DNS_NS) {
		answer_put_soa(a, &w);
		return answer_finish(a, &w);
	}
	dns_reply_record(&w, DNS_OWNER, DNS_NS, a->z->ttl_s, ns, put_server(a, ns));
	return answer_finish(a, &w);
}

static enum dns_verdict
answer_version(struct ask *a)
{
	struct dns_writer w;
	uint8_t text[16];

	if (!answer_asks(a, DNS_TXT))
		return answer_negative(a, DNS_NOERROR);
	answer_begin(a, &w);
	dns_reply_record(&w, DNS_OWNER, DNS_TXT, a->z->ttl_s, text,
		answer_put_label(text, SPEC_VERSION, strlen(SPEC_VERSION)));
	return answer_finish(a, &w);
}

/* dns.<domain> exists because ns.dns.<domain> does, the name in the NS record. */
static enum dns_verdict
answer_dns(struct ask *a)
{
	if (a->n == 1)
		return answer_negative(a, DNS_NOERROR);
	if (a->n > 2 || !answer_label_is(a, 2, "ns"))
		return answer_negative(a, DNS_NXDOMAIN);
	return answer_address(a, a->z->address, &a->z->address6);
}

static enum dns_verdict
answer_zone(struct ask *a)
{
	if (!snapshot_synced(a->s))
		return answer_fail(a, DNS_SERVFAIL);
	if (a->n == 0)
		return answer_apex(a);
	if (answer_label_is(a, 1, "svc"))
		return answer_svc(a);
	if (answer_label_is(a, 1, "pod"))
		return answer_pod(a);
	if (answer_label_is(a, 1, "dns"))
		return answer_dns(a);
	if (a->n == 1 && answer_label_is(a, 1, "dns-version"))
		return answer_version(a);
	return answer_negative(a, DNS_NXDOMAIN);
}

/* svc.<domain>.<anything>: made from one of our names by a search list. Resolvers ask for it before
 * <service>.<namespace>.svc.<domain>, whose dots are fewer than ndots:5, so the answer must not
 * depend on a live upstream. */
static bool
is_searched(const struct dns_zone *z, const struct dns_query *q)
{
	size_t domain = z->name_len - 1u; /* without the root */

	for (unsigned i = 1; i < q->n_labels && q->label[i] + 4 + z->name_len < q->name_len; i++) {
		const uint8_t *at = q->name + q->label[i];

		if (memcmp(at, "\3svc", 4) == 0 && memcmp(at + 4, z->name, domain) == 0)
			return true;
	}
	return false;
}

enum dns_verdict
dns_answer(const struct dns_zone *z, const struct snapshot *s, const struct dns_query *q,
	struct dns_out *out, struct dns_target *target)
{
	struct ask a = {.z = z, .s = s, .q = q, .out = out, .target = target};
	int n;

	out->len = 0;
	if (q->class != DNS_CLASS_IN || q->type == DNS_IXFR || q->type == DNS_AXFR)
		return answer_fail(&a, DNS_REFUSED);
	if (q->type == 0 || q->type == DNS_OPT)
		return answer_fail(&a, DNS_FORMERR);
	if (q->type >= DNS_TKEY && q->type < DNS_IXFR)
		return answer_fail(&a, DNS_NOTIMP);
	n = answer_labels_in_zone(z, q->name, q->name_len);
	if (n < 0 && is_searched(z, q))
		return answer_fail(&a, DNS_NXDOMAIN);
	if (n < 0)
		return answer_reverse(&a);
	a.n = (unsigned)n;
	return answer_zone(&a);
}
