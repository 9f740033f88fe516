#include "dns/answer.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "model/mesh.h"

enum {
	NEGATIVE_TTL_S = 5, /* a service that appears is called a moment later */
	SERVICE_NAME = 2 * (MESH_NAME_MAX + 1) + 4, /* <service>.<namespace>.svc. in wire form */
	SVC_LABELS = 6, /* of <service>.<namespace>.svc: length octets, and "svc" */
	SRV_FIXED = 6,
};

#define SPEC_VERSION "1.1.0"

/* One query being answered. Labels in front of the zone are counted from it: 1 is the nearest. */
struct ask {
	const struct dns_zone *z;
	const struct snapshot *s;
	const struct dns_query *q;
	struct dns_out *out;
	struct dns_target *target;
	unsigned n; /* labels in front of the zone */
};

int
dns_zone_init(struct dns_zone *z, const char *domain, uint32_t ttl_s)
{
	size_t len = dns_name_from_text(z->name, domain);

	if (len < 2 || len + SERVICE_NAME > DNS_NAME_MAX)
		return -EINVAL;
	z->name_len = (uint8_t)len;
	z->n_labels = 0;
	for (size_t at = 0; z->name[at] != 0; at += z->name[at] + 1u)
		z->n_labels++;
	z->ttl_s = ttl_s;
	z->address = 0;
	return 0;
}

/* --- names --------------------------------------------------------------- */

static const char *
label(const struct ask *a, unsigned i, size_t *len)
{
	const uint8_t *at = a->q->name + a->q->label[a->n - i];

	*len = at[0];
	return (const char *)at + 1;
}

static bool
label_is(const struct ask *a, unsigned i, const char *text)
{
	size_t len;
	const char *at = label(a, i, &len);

	return len == strlen(text) && memcmp(at, text, len) == 0;
}

/* Offset in the message of the name that begins with label i; 0: the zone itself. */
static uint16_t
name_at(const struct ask *a, unsigned i)
{
	return (uint16_t)(DNS_HEADER + a->q->label[a->n - i]);
}

static size_t
put_label(uint8_t *to, const char *text, size_t len)
{
	to[0] = (uint8_t)len;
	memcpy(to + 1, text, len);
	return len + 1;
}

static size_t
put_service_name(uint8_t to[DNS_NAME_MAX], const struct dns_zone *z, const struct service *svc)
{
	size_t name = strlen(svc->name), ns = strlen(svc->namespace), n = 0;
	const char *dot = strchr(svc->name, '.');
	size_t first = dot != NULL ? (size_t)(dot - svc->name) : name;

	/* With a long hostname and a long domain there may be no such name. */
	if (name > MESH_SERVICE_MAX || first > MESH_NAME_MAX || name - first > MESH_NAME_MAX + 1 ||
		ns > MESH_NAME_MAX || name + ns + SVC_LABELS + z->name_len > DNS_NAME_MAX)
		return 0;
	n = put_label(to, svc->name, first);
	if (dot != NULL)
		n += put_label(to + n, dot + 1, name - first - 1);
	n += put_label(to + n, svc->namespace, ns);
	n += put_label(to + n, "svc", 3);
	memcpy(to + n, z->name, z->name_len);
	return n + z->name_len;
}

/* Labels of `name` in front of the zone, or -1 when it does not lie in it. */
static int
labels_in_zone(const struct dns_zone *z, const uint8_t *name, size_t len)
{
	size_t at = 0;
	int n = 0;

	while (len - at > z->name_len) {
		at += name[at] + 1u;
		n++;
	}
	return len - at == z->name_len && dns_name_equal(name + at, z->name, z->name_len) ? n : -1;
}

/* --- answers ------------------------------------------------------------- */

static void
put_soa(struct dns_writer *w, const struct ask *a)
{
	uint8_t d[64];
	uint16_t zone = (uint16_t)(0xc000 | name_at(a, 0));
	uint32_t ttl = MIN(a->z->ttl_s, (uint32_t)NEGATIVE_TTL_S);
	size_t n = put_label(d, "ns", 2);

	n += put_label(d + n, "dns", 3);
	dns_put16(d + n, zone);
	n += 2;
	n += put_label(d + n, "hostmaster", 10);
	dns_put16(d + n, zone);
	n += 2;
	dns_put32(d + n, (uint32_t)snapshot_version(a->s));
	dns_put32(d + n + 4, 7200);
	dns_put32(d + n + 8, 1800);
	dns_put32(d + n + 12, 86400);
	dns_put32(d + n + 16, ttl);
	dns_reply_record(w, name_at(a, 0), DNS_SOA, ttl, d, n + 20);
}

static enum dns_verdict
finish(struct ask *a, struct dns_writer *w)
{
	a->out->len = dns_reply_finish(w);
	return DNS_ANSWERED;
}

static enum dns_verdict
fail(struct ask *a, enum dns_rcode rcode)
{
	a->out->len = dns_reply_error(a->out->bytes, a->out->size, a->q, rcode);
	return DNS_ANSWERED;
}

static void
begin(struct ask *a, struct dns_writer *w)
{
	dns_reply_start(w, a->out->bytes, a->out->size, a->q, DNS_NOERROR, true);
}

/* NXDOMAIN or NODATA (NOERROR): both with SOA (RFC 2308). */
static enum dns_verdict
negative(struct ask *a, enum dns_rcode rcode)
{
	struct dns_writer w;

	dns_reply_start(&w, a->out->bytes, a->out->size, a->q, rcode, true);
	dns_reply_section(&w, DNS_SECTION_AUTHORITY);
	put_soa(&w, a);
	return finish(a, &w);
}

static bool
asks(const struct ask *a, enum dns_type type)
{
	return a->q->type == type || a->q->type == DNS_ANY;
}

static enum dns_verdict
address(struct ask *a, uint32_t ip)
{
	struct dns_writer w;

	begin(a, &w);
	dns_reply_a(&w, DNS_OWNER, a->z->ttl_s, ip);
	return finish(a, &w);
}

static enum dns_verdict
answer_apex(struct ask *a)
{
	struct dns_writer w;
	uint8_t ns[16];
	size_t n = put_label(ns, "ns", 2);

	if (!asks(a, DNS_SOA) && a->q->type != DNS_NS)
		return negative(a, DNS_NOERROR);
	begin(a, &w);
	if (a->q->type != DNS_NS) {
		put_soa(&w, a);
		return finish(a, &w);
	}
	n += put_label(ns + n, "dns", 3);
	dns_put16(ns + n, 0xc000u | name_at(a, 0));
	dns_reply_record(&w, DNS_OWNER, DNS_NS, a->z->ttl_s, ns, n + 2);
	return finish(a, &w);
}

static enum dns_verdict
answer_version(struct ask *a)
{
	struct dns_writer w;
	uint8_t text[16];

	if (!asks(a, DNS_TXT))
		return negative(a, DNS_NOERROR);
	begin(a, &w);
	dns_reply_record(&w, DNS_OWNER, DNS_TXT, a->z->ttl_s, text,
		put_label(text, SPEC_VERSION, strlen(SPEC_VERSION)));
	return finish(a, &w);
}

/* dns.<domain> is there because ns.dns.<domain> is, the name of the NS record. */
static enum dns_verdict
answer_dns(struct ask *a)
{
	if (a->n == 1)
		return negative(a, DNS_NOERROR);
	if (a->n > 2 || !label_is(a, 2, "ns"))
		return negative(a, DNS_NXDOMAIN);
	if (!asks(a, DNS_A) || a->z->address == 0)
		return negative(a, DNS_NOERROR);
	return address(a, a->z->address);
}

/* --- services ------------------------------------------------------------ */

/* The service behind a CNAME's target in our own zone: one step, its address comes along. */
static const struct service *
find_target(const struct ask *a, const struct dns_target *t)
{
	const uint8_t *name = t->name, *ns = name + name[0] + 1;
	const struct service *svc;

	if (labels_in_zone(a->z, t->name, t->len) != 3 || ns[ns[0] + 1] != 3 ||
		!dns_name_equal(ns + ns[0] + 2, (const uint8_t *)"svc", 3))
		return NULL;
	svc = snapshot_find(a->s, (const char *)ns + 1, ns[0], (const char *)name + 1, name[0]);
	return svc != NULL && svc->external_name[0] == '\0' && svc->fake_ip != 0 ? svc : NULL;
}

static enum dns_verdict
answer_external(struct ask *a, const struct service *svc)
{
	size_t len = dns_name_from_text(a->target->name, svc->external_name);
	const struct service *inside;
	struct dns_writer w;

	if (len < 2)
		return fail(a, DNS_SERVFAIL);
	a->target->len = (uint8_t)len;
	begin(a, &w);
	dns_reply_record(&w, DNS_OWNER, DNS_CNAME, a->z->ttl_s, a->target->name, len);
	inside = find_target(a, a->target);
	if (inside != NULL && a->q->type == DNS_A) {
		uint8_t ip[4];

		dns_put32(ip, inside->fake_ip);
		dns_reply_named(&w, a->target->name, DNS_A, a->z->ttl_s, ip, sizeof ip);
	}
	finish(a, &w);
	if (a->q->type == DNS_CNAME || a->q->type == DNS_ANY ||
		labels_in_zone(a->z, a->target->name, len) >= 0)
		return DNS_ANSWERED;
	return DNS_CHASE;
}

static bool
is_udp(const struct service_port *p)
{
	return p->mode == PORT_UDP;
}

static bool
port_named(const struct service_port *p, const char *name, size_t len)
{
	return len > 0 && strlen(p->name) == len && strncasecmp(p->name, name, len) == 0;
}

/* SRV records of the service's ports that match; name NULL: all of them. Returns how many. */
static unsigned
put_srv(struct ask *a, struct dns_writer *w, const struct service *svc, bool udp, const char *name,
	size_t len)
{
	uint8_t d[SRV_FIXED + DNS_NAME_MAX];
	size_t n = put_service_name(d + SRV_FIXED, a->z, svc);
	unsigned count = 0;

	for (unsigned i = 0; i < svc->n_ports && n > 0; i++) {
		const struct service_port *p = &svc->ports[i];

		if (p->extra || (name != NULL && (is_udp(p) != udp || !port_named(p, name, len))))
			continue;
		dns_put16(d, 0);
		dns_put16(d + 2, 100);
		dns_put16(d + 4, p->port);
		dns_reply_record(w, DNS_OWNER, DNS_SRV, a->z->ttl_s, d, SRV_FIXED + n);
		count++;
	}
	return count;
}

static enum dns_verdict
finish_srv(struct ask *a, struct dns_writer *w, const struct service *svc)
{
	dns_reply_section(w, DNS_SECTION_ADDITIONAL);
	dns_reply_a(w, name_at(a, 3), a->z->ttl_s, svc->fake_ip);
	return finish(a, w);
}

static enum dns_verdict
answer_service(struct ask *a, const struct service *svc)
{
	struct dns_writer w;

	if (asks(a, DNS_A))
		return address(a, svc->fake_ip);
	if (a->q->type != DNS_SRV || svc->n_ports == 0)
		return negative(a, DNS_NOERROR);
	begin(a, &w);
	put_srv(a, &w, svc, false, NULL, 0);
	return finish_srv(a, &w, svc);
}

/* _http._tcp.<service>..., and _tcp.<service>... as the empty non-terminal above it. */
static enum dns_verdict
answer_port(struct ask *a, const struct service *svc)
{
	bool udp = label_is(a, 4, "_udp"), any = false, match = false;
	struct dns_writer w;
	const char *name = NULL;
	size_t len = 0;

	if (a->n > 5 || (!udp && !label_is(a, 4, "_tcp")))
		return negative(a, DNS_NXDOMAIN);
	if (a->n == 5) {
		name = label(a, 5, &len);
		if (name[0] != '_')
			return negative(a, DNS_NXDOMAIN);
		name++;
		len--;
	}
	for (unsigned i = 0; i < svc->n_ports; i++) {
		const struct service_port *p = &svc->ports[i];

		any |= is_udp(p) == udp && p->name[0] != '\0';
		match |= is_udp(p) == udp && name != NULL && port_named(p, name, len);
	}
	if (name != NULL ? !match : !any)
		return negative(a, DNS_NXDOMAIN);
	if (name == NULL || !asks(a, DNS_SRV))
		return negative(a, DNS_NOERROR);
	begin(a, &w);
	put_srv(a, &w, svc, udp, name, len);
	return finish_srv(a, &w, svc);
}

static enum dns_verdict
answer_svc(struct ask *a)
{
	const struct service *svc;
	const char *ns, *name;
	size_t ns_len, name_len;

	if (a->n == 1)
		return negative(a, DNS_NOERROR);
	ns = label(a, 2, &ns_len);
	if (a->n == 2)
		return negative(
			a, snapshot_has_namespace(a->s, ns, ns_len) ? DNS_NOERROR : DNS_NXDOMAIN);
	name = label(a, 3, &name_len);
	svc = snapshot_find(a->s, ns, ns_len, name, name_len);
	if (svc == NULL)
		return negative(a, DNS_NXDOMAIN);
	if (svc->external_name[0] != '\0')
		return a->n == 3 ? answer_external(a, svc) : negative(a, DNS_NXDOMAIN);
	if (svc->fake_ip == 0) /* the range was exhausted */
		return negative(a, DNS_NXDOMAIN);
	return a->n == 3 ? answer_service(a, svc) : answer_port(a, svc);
}

static enum dns_verdict
answer_zone(struct ask *a)
{
	if (!snapshot_synced(a->s))
		return fail(a, DNS_SERVFAIL);
	if (a->n == 0)
		return answer_apex(a);
	if (label_is(a, 1, "svc"))
		return answer_svc(a);
	if (label_is(a, 1, "dns"))
		return answer_dns(a);
	if (a->n == 1 && label_is(a, 1, "dns-version"))
		return answer_version(a);
	return negative(a, DNS_NXDOMAIN);
}

/* --- reverse ------------------------------------------------------------- */

static bool
octet(const uint8_t *l, uint32_t *v)
{
	*v = 0;
	if (l[0] == 0 || l[0] > 3 || (l[0] > 1 && l[1] == '0'))
		return false;
	for (unsigned i = 1; i <= l[0]; i++) {
		if (l[i] < '0' || l[i] > '9')
			return false;
		*v = *v * 10 + (l[i] - (uint32_t)'0');
	}
	return *v <= 255;
}

/* d.c.b.a.in-addr.arpa of an address that we serve. */
static const struct service *
find_reverse(const struct dns_query *q, const struct snapshot *s)
{
	static const uint8_t arpa[] = "\7in-addr\4arpa";
	uint32_t ip = 0;

	if (q->n_labels != 6 || memcmp(q->name + q->label[4], arpa, sizeof arpa) != 0)
		return NULL;
	for (unsigned i = 4; i-- > 0;) {
		uint32_t v;

		if (!octet(q->name + q->label[i], &v))
			return NULL;
		ip = ip << 8 | v;
	}
	return ip != 0 ? snapshot_find_ip(s, ip) : NULL;
}

static enum dns_verdict
answer_reverse(struct ask *a)
{
	const struct service *svc = find_reverse(a->q, a->s);
	uint8_t name[DNS_NAME_MAX];
	struct dns_writer w;
	size_t n;

	if (svc == NULL)
		return DNS_FORWARD;
	n = put_service_name(name, a->z, svc);
	begin(a, &w);
	if (n > 0 && asks(a, DNS_PTR))
		dns_reply_record(&w, DNS_OWNER, DNS_PTR, a->z->ttl_s, name, n);
	return finish(a, &w);
}

enum dns_verdict
dns_answer(const struct dns_zone *z, const struct snapshot *s, const struct dns_query *q,
	struct dns_out *out, struct dns_target *target)
{
	struct ask a = {.z = z, .s = s, .q = q, .out = out, .target = target};
	int n;

	out->len = 0;
	if (q->class != DNS_CLASS_IN || q->type == DNS_IXFR || q->type == DNS_AXFR)
		return fail(&a, DNS_REFUSED);
	if (q->type == 0 || q->type == DNS_OPT)
		return fail(&a, DNS_FORMERR);
	if (q->type >= DNS_TKEY && q->type < DNS_IXFR)
		return fail(&a, DNS_NOTIMP);
	n = labels_in_zone(z, q->name, q->name_len);
	if (n < 0)
		return answer_reverse(&a);
	a.n = (unsigned)n;
	return answer_zone(&a);
}
