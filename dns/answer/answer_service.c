#include <string.h>
#include <strings.h>

#include "dns/answer/answer_private.h"
#include "model/mesh.h"

enum {
	SRV_FIXED = 6,
	SERVICE = 3, /* labels of <service>.<namespace>.svc */
	POD = 4,
	CHAIN_MAX = 8, /* CNAMEs in a row */
};

/* --- look-up -------------------------------------------------------------------------------- */

/* A label, or a name of the snapshot. */
struct part {
	const char *at;
	size_t len;
};

static struct part
wire_part(const uint8_t *label)
{
	return (struct part){(const char *)label + 1, label[0]};
}

static struct part
text_part(const char *text)
{
	return (struct part){text, strlen(text)};
}

static struct part
asked_part(const struct ask *a, unsigned i)
{
	struct part p;

	p.at = answer_label(a, i, &p.len);
	return p;
}

static const struct service *
find_service(const struct ask *a, struct part ns, struct part name)
{
	const struct service *svc = snapshot_find(a->s, ns.at, ns.len, name.at, name.len);

	/* A label that contains a dot must not match a name of two labels. */
	return svc != NULL && memchr(svc->name, '.', name.len) == NULL ? svc : NULL;
}

/* <hostname>.<service>: one key in the snapshot. */
static const struct service *
find_pod(const struct ask *a, struct part ns, struct part host, struct part name)
{
	char key[MESH_SERVICE_MAX];

	if (host.len + 1 + name.len > sizeof key)
		return NULL;
	memcpy(key, host.at, host.len);
	key[host.len] = '.';
	memcpy(key + host.len + 1, name.at, name.len);
	return snapshot_find(a->s, ns.at, ns.len, key, host.len + 1 + name.len);
}

/* --- ExternalName --------------------------------------------------------------------------- */

/* The chain of CNAMEs: through services of the zone, each an ExternalName, to `target`. */
struct chain {
	const struct service *via[CHAIN_MAX];
	unsigned n;
	bool in_zone;
	bool missing; /* no such service */
	const struct service *end; /* the service that has an address, or NULL */
};

/* The service that a name in our own zone denotes; *named: the name has the form of a service or
 * pod, which may or may not exist. */
static const struct service *
find_target(const struct ask *a, const struct dns_target *t, int labels, bool *named)
{
	const uint8_t *host = t->name, *name = labels == POD ? host + host[0] + 1 : host;
	const uint8_t *ns = name + name[0] + 1;

	*named = (labels == SERVICE || labels == POD) && ns[ns[0] + 1] == 3 &&
		dns_name_equal(ns + ns[0] + 2, (const uint8_t *)"svc", 3);
	if (!*named)
		return NULL;
	return labels == SERVICE ? find_service(a, wire_part(ns), wire_part(name))
				 : find_pod(a, wire_part(ns), wire_part(host), wire_part(name));
}

/* False when the chain is too long, or a loop. */
static bool
answer_service_follow(const struct ask *a, const struct service *svc, struct chain *c)
{
	memset(c, 0, sizeof *c);
	while (c->n < CHAIN_MAX) {
		size_t len = dns_name_from_text(a->target->name, svc->external_name);
		bool named = false;
		int labels;

		if (len < 2)
			return false;
		a->target->len = (uint8_t)len;
		c->via[c->n++] = svc;
		labels = answer_labels_in_zone(a->z, a->target->name, len);
		c->in_zone = labels >= 0;
		svc = c->in_zone ? find_target(a, a->target, labels, &named) : NULL;
		if (svc != NULL && svc->external_name[0] != '\0')
			continue;
		c->missing = c->in_zone && named && svc == NULL;
		c->end = svc != NULL && svc->fake_ip != 0 ? svc : NULL;
		return true;
	}
	return false;
}

static void
put_chain(struct ask *a, struct dns_writer *w, const struct chain *c, unsigned n)
{
	uint8_t owner[DNS_NAME_MAX], to[DNS_NAME_MAX];

	for (unsigned i = 0; i < n; i++) {
		size_t len = dns_name_from_text(to, c->via[i]->external_name);

		if (i == 0)
			dns_reply_record(w, DNS_OWNER, DNS_CNAME, a->z->ttl_s, to, len);
		else
			dns_reply_named(w, owner, DNS_CNAME, a->z->ttl_s, to, len);
		memcpy(owner, to, len);
	}
}

/* The address of the asked type at the end of a chain. Returns whether there is one. */
static bool
put_end(const struct ask *a, struct dns_writer *w, const struct service *end)
{
	const struct in6_addr six = answer_fake6(a, end);
	uint8_t four[4];

	dns_put32(four, end->fake_ip);
	if (a->q->type == DNS_A)
		dns_reply_named(w, a->target->name, DNS_A, a->z->ttl_s, four, sizeof four);
	else if (a->q->type == DNS_AAAA && !IN6_IS_ADDR_UNSPECIFIED(&six))
		dns_reply_named(w, a->target->name, DNS_AAAA, a->z->ttl_s, &six, sizeof six);
	else
		return false;
	return true;
}

static enum dns_verdict
answer_external(struct ask *a, const struct service *svc)
{
	bool first_only = a->q->type == DNS_CNAME || a->q->type == DNS_ANY;
	struct dns_writer w;
	struct chain c;

	if (!answer_service_follow(a, svc, &c) && !first_only)
		return answer_fail(a, DNS_SERVFAIL);
	if (c.n == 0)
		return answer_fail(a, DNS_SERVFAIL);
	/* The rcode is that of the last name (RFC 6604). */
	dns_reply_start(&w, a->out->bytes, a->out->size, a->q,
		c.missing && !first_only ? DNS_NXDOMAIN : DNS_NOERROR, true);
	put_chain(a, &w, &c, first_only ? 1 : c.n);
	if (!first_only && c.in_zone) {
		if (c.end == NULL || !put_end(a, &w, c.end)) {
			dns_reply_section(&w, DNS_SECTION_AUTHORITY);
			answer_put_soa(a, &w);
		}
	}
	answer_finish(a, &w);
	return first_only || c.in_zone ? DNS_ANSWERED : DNS_CHASE;
}

/* --- SRV ------------------------------------------------------------------------------------ */

/* The ports that a query asks for; name NULL: all of the service's. */
struct wanted {
	bool udp;
	const char *name;
	size_t len;
};

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

static bool
is_wanted(const struct service_port *p, const struct wanted *w)
{
	if (p->extra)
		return false;
	return w->name == NULL || (is_udp(p) == w->udp && port_named(p, w->name, w->len));
}

/* Whether one of the port's first n endpoints has this hostname. A service stores each text once,
 * so pointers are compared. */
static bool
has_hostname(const struct service_port *p, unsigned n, const char *hostname)
{
	for (unsigned i = 0; i < n; i++)
		if (p->endpoints[i].hostname == hostname ||
			(*hostname == '\0' && *p->endpoints[i].hostname == '\0'))
			return true;
	return false;
}

/* The SRV targets of a port, one after the other: the service; if it has named pods, the pod of
 * each endpoint (the service again for an endpoint without a hostname). */
static const struct service *
next_target(const struct ask *a, const struct service *svc, const struct service_port *p,
	unsigned *next)
{
	if (!svc->named_pods)
		return (*next)++ == 0 ? svc : NULL;
	while (*next < p->n_endpoints) {
		unsigned i = (*next)++;
		const char *host = p->endpoints[i].hostname;
		const struct service *target = svc;

		if (has_hostname(p, i, host))
			continue;
		if (*host != '\0')
			target = find_pod(a, text_part(svc->namespace), text_part(host),
				text_part(svc->name));
		if (target != NULL && target->fake_ip != 0)
			return target;
	}
	return NULL;
}

/* Returns how many. */
static unsigned
put_srv(struct ask *a, struct dns_writer *w, const struct service *svc, const struct wanted *wanted)
{
	uint8_t d[SRV_FIXED + DNS_NAME_MAX];
	const struct service *target;
	unsigned count = 0;

	for (unsigned i = 0; i < svc->n_ports; i++) {
		const struct service_port *p = &svc->ports[i];

		if (!is_wanted(p, wanted))
			continue;
		for (unsigned k = 0;
			!w->truncated && (target = next_target(a, svc, p, &k)) != NULL;) {
			size_t n = answer_put_service(d + SRV_FIXED, a->z, target);

			if (n == 0)
				continue;
			dns_put16(d, 0);
			dns_put16(d + 2, 100);
			dns_put16(d + 4, p->port);
			dns_reply_record(w, DNS_OWNER, DNS_SRV, a->z->ttl_s, d, SRV_FIXED + n);
			count++;
		}
	}
	return count;
}

/* Whether a port before the i-th already listed the endpoint's name. */
static bool
said_before(
	const struct service *svc, const struct wanted *wanted, unsigned i, const char *hostname)
{
	for (unsigned k = 0; k < i; k++)
		if (is_wanted(&svc->ports[k], wanted) &&
			has_hostname(&svc->ports[k], svc->ports[k].n_endpoints, hostname))
			return true;
	return false;
}

/* Adds the addresses of all targets, each once, as far as there is room. */
static void
put_addresses(
	struct ask *a, struct dns_writer *w, const struct service *svc, const struct wanted *wanted)
{
	uint8_t name[DNS_NAME_MAX], ip[4];
	struct in6_addr six = answer_fake6(a, svc);
	const struct service *target;

	dns_reply_section(w, DNS_SECTION_ADDITIONAL);
	if (!svc->named_pods) {
		uint16_t owner = answer_name_at(a, strchr(svc->name, '.') != NULL ? POD : SERVICE);

		dns_reply_a(w, owner, a->z->ttl_s, svc->fake_ip);
		if (!IN6_IS_ADDR_UNSPECIFIED(&six))
			dns_reply_record(w, owner, DNS_AAAA, a->z->ttl_s, &six, sizeof six);
		return;
	}
	for (unsigned i = 0; i < svc->n_ports; i++) {
		const struct service_port *p = &svc->ports[i];

		if (!is_wanted(p, wanted))
			continue;
		for (unsigned k = 0; (target = next_target(a, svc, p, &k)) != NULL;) {
			size_t before = w->len;

			if (said_before(svc, wanted, i, p->endpoints[k - 1].hostname) ||
				answer_put_service(name, a->z, target) == 0)
				continue;
			dns_put32(ip, target->fake_ip);
			dns_reply_named(w, name, DNS_A, a->z->ttl_s, ip, sizeof ip);
			if (w->len == before)
				return;
			six = answer_fake6(a, target);
			if (!IN6_IS_ADDR_UNSPECIFIED(&six))
				dns_reply_named(w, name, DNS_AAAA, a->z->ttl_s, &six, sizeof six);
		}
	}
}

static enum dns_verdict
answer_srv(struct ask *a, const struct service *svc, const struct wanted *wanted)
{
	struct dns_writer w;

	answer_begin(a, &w);
	if (put_srv(a, &w, svc, wanted) == 0 && !w.truncated)
		return answer_negative(a, DNS_NOERROR);
	put_addresses(a, &w, svc, wanted);
	return answer_finish(a, &w);
}

/* --- services ------------------------------------------------------------------------------- */

static enum dns_verdict
answer_service(struct ask *a, const struct service *svc)
{
	static const struct wanted all = {0};

	const struct in6_addr six = answer_fake6(a, svc);

	return a->q->type == DNS_SRV ? answer_srv(a, svc, &all)
				     : answer_address(a, svc->fake_ip, &six);
}

/* _http._tcp.<service>..., and _tcp.<service>... as the empty non-terminal above it; the service or
 * its pod has `base` labels. */
static enum dns_verdict
answer_port(struct ask *a, const struct service *svc, unsigned base)
{
	struct wanted wanted = {.udp = answer_label_is(a, base + 1, "_udp")};
	bool any = false, match = false;

	if (a->n > base + 2 || (!wanted.udp && !answer_label_is(a, base + 1, "_tcp")))
		return answer_negative(a, DNS_NXDOMAIN);
	if (a->n == base + 2) {
		wanted.name = answer_label(a, base + 2, &wanted.len);
		if (wanted.name[0] != '_')
			return answer_negative(a, DNS_NXDOMAIN);
		wanted.name++;
		wanted.len--;
	}
	for (unsigned i = 0; i < svc->n_ports; i++) {
		const struct service_port *p = &svc->ports[i];

		any |= is_udp(p) == wanted.udp && p->name[0] != '\0';
		match |= wanted.name != NULL && is_wanted(p, &wanted);
	}
	if (wanted.name != NULL ? !match : !any)
		return answer_negative(a, DNS_NXDOMAIN);
	if (wanted.name == NULL || !answer_asks(a, DNS_SRV))
		return answer_negative(a, DNS_NOERROR);
	return answer_srv(a, svc, &wanted);
}

/* Labels that begin with _ are not hostnames. */
static bool
names_pod(const struct ask *a)
{
	return a->n >= POD && asked_part(a, POD).at[0] != '_';
}

enum dns_verdict
answer_svc(struct ask *a)
{
	const struct service *svc;
	struct part ns, name;
	unsigned base = SERVICE;

	if (a->n == 1)
		return answer_negative(a, DNS_NOERROR);
	ns = asked_part(a, 2);
	if (a->n == 2)
		return answer_negative(a,
			snapshot_has_namespace(a->s, ns.at, ns.len) ? DNS_NOERROR : DNS_NXDOMAIN);
	name = asked_part(a, SERVICE);
	svc = find_service(a, ns, name);
	if (svc != NULL && names_pod(a)) {
		base = POD;
		svc = find_pod(a, ns, asked_part(a, POD), name);
	}
	if (svc == NULL)
		return answer_negative(a, DNS_NXDOMAIN);
	if (svc->external_name[0] != '\0')
		return a->n == SERVICE ? answer_external(a, svc) : answer_negative(a, DNS_NXDOMAIN);
	/* No fake IP was left; names of its pods may still exist below. */
	if (svc->fake_ip == 0)
		return answer_negative(a, svc->named_pods ? DNS_NOERROR : DNS_NXDOMAIN);
	return a->n == base ? answer_service(a, svc) : answer_port(a, svc, base);
}
