#include <string.h>

#include "base/core/special_addr.h"
#include "dns/answer/answer_private.h"

/* How the names under a domain say an address, from its most significant bits on: by octets (RFC
 * 1035 section 3.5) or nibbles (RFC 3596 section 2.5). */
struct reverse_tree {
	const char *domain; /* in wire form */
	bool (*digit)(const uint8_t *label, unsigned *v);
	unsigned bits; /* of a label */
	unsigned labels; /* of a whole address */
};

static bool
answer_reverse_octet(const uint8_t *l, unsigned *v)
{
	*v = 0;
	if (l[0] == 0 || l[0] > 3 || (l[0] > 1 && l[1] == '0'))
		return false;
	for (unsigned i = 1; i <= l[0]; i++) {
		if (l[i] < '0' || l[i] > '9')
			return false;
		*v = *v * 10 + (l[i] - (unsigned)'0');
	}
	return *v <= 255;
}

static bool
answer_reverse_nibble(const uint8_t *l, unsigned *v)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = l[0] == 1 ? memchr(digits, l[1], sizeof digits - 1) : NULL;

	*v = at != NULL ? (unsigned)(at - digits) : 0;
	return at != NULL;
}

static const struct reverse_tree reverse_tree4 = {"\7in-addr\4arpa", answer_reverse_octet, 8, 4};
static const struct reverse_tree reverse_tree6 = {"\3ip6\4arpa", answer_reverse_nibble, 4, 32};

/* How many of the labels in front of the domain, counted from the right, are of an address: stored
 * in *ip from the most significant bits on. */
static unsigned
answer_reverse_read(
	const struct reverse_tree *t, const struct dns_query *q, unsigned n, struct in6_addr *ip)
{
	unsigned k = 0, v;

	*ip = in6addr_any;
	for (; k < n && k < t->labels && t->digit(q->name + q->label[n - 1 - k], &v); k++)
		ip->s6_addr[k * t->bits / 8] |= (uint8_t)(v << (8 - t->bits - k * t->bits % 8));
	return k;
}

/* PTR of an existing service's address: a fake IP or a ClusterIP. */
static enum dns_verdict
answer_pointer(struct ask *a, const struct service *svc)
{
	uint8_t name[DNS_NAME_MAX];
	size_t n = answer_put_service(name, a->z, svc);
	struct dns_writer w;

	if (a->reverse && (n == 0 || !answer_asks(a, DNS_PTR)))
		return answer_negative(a, DNS_NOERROR);
	answer_begin(a, &w);
	/* We are not authoritative for the zone of a ClusterIP: no SOA for it. */
	if (n > 0 && answer_asks(a, DNS_PTR))
		dns_reply_record(&w, DNS_OWNER, DNS_PTR, a->z->ttl_s, name, n);
	return answer_finish(a, &w);
}

/* What was asked, in a reverse tree. */
struct reverse_asked {
	const struct reverse_tree *tree;
	unsigned k; /* labels in front of the domain that are of an address */
	const struct service *svc; /* that has the address; NULL: none */
	unsigned range_bits; /* of the prefix of the fake IPs; 0: none */
	bool in_range;
};

/* In the reverse zone of the fake IPs nobody else has any data. The zone's apex is at the label in
 * which the prefix ends. */
static enum dns_verdict
answer_range(struct ask *a, const struct reverse_asked *r, unsigned apex)
{
	a->reverse = true;
	a->n -= apex;
	if (!snapshot_synced(a->s))
		return answer_fail(a, DNS_SERVFAIL);
	if (r->svc != NULL)
		return answer_pointer(a, r->svc);
	if (a->n == 0)
		return answer_apex(a);
	/* Between the apex and an address: an empty non-terminal, whether or not addresses below
	 * are used. */
	return answer_negative(
		a, a->n + apex == r->k && r->k < r->tree->labels ? DNS_NOERROR : DNS_NXDOMAIN);
}

static void
answer_reverse_find4(const struct ask *a, struct reverse_asked *r, const struct in6_addr *at)
{
	uint32_t ip;

	memcpy(&ip, at, sizeof ip);
	ip = ntohl(ip);
	r->range_bits = (unsigned)__builtin_popcount(a->z->mask);
	r->in_range = (ip & a->z->mask) == a->z->subnet;
	if (r->k == r->tree->labels && a->n == r->k && ip != 0)
		r->svc = snapshot_find_ip(a->s, ip);
}

static void
answer_reverse_find6(const struct ask *a, struct reverse_asked *r, const struct in6_addr *ip)
{
	const struct fake6 *range = &a->z->subnet6;
	uint32_t inner = fake6_inner(range, ip);

	r->range_bits = range->bits;
	r->in_range = special_addr_in_net(ip, &range->prefix, range->bits);
	if (r->k < r->tree->labels || a->n > r->k)
		return;
	r->svc = inner != 0 ? snapshot_find_ip(a->s, inner) : NULL;
	if (r->svc == NULL || r->svc->fake_ip != inner)
		r->svc = snapshot_find_ip6(a->s, ip);
}

enum dns_verdict
answer_reverse(struct ask *a)
{
	const struct dns_query *q = a->q;
	struct reverse_asked r = {.tree = &reverse_tree4};
	struct in6_addr ip;
	const char *domain;
	unsigned apex;

	if (q->n_labels < 3)
		return DNS_FORWARD;
	domain = (const char *)q->name + q->label[q->n_labels - 2];
	if (strcmp(domain, reverse_tree6.domain) == 0)
		r.tree = &reverse_tree6;
	else if (strcmp(domain, reverse_tree4.domain) != 0)
		return DNS_FORWARD;
	a->n = q->n_labels - 2u;
	r.k = answer_reverse_read(r.tree, q, a->n, &ip);
	if (r.tree == &reverse_tree4)
		answer_reverse_find4(a, &r, &ip);
	else
		answer_reverse_find6(a, &r, &ip);
	apex = (r.range_bits + r.tree->bits - 1) / r.tree->bits;
	if (apex > 0 && r.k >= apex && r.in_range)
		return answer_range(a, &r, apex);
	if (r.svc == NULL && r.k == r.tree->labels && a->n == r.k)
		return answer_pod_pointer(a, &ip);
	return r.svc != NULL ? answer_pointer(a, r.svc) : DNS_FORWARD;
}
