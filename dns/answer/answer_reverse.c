#include <string.h>

#include "dns/answer/answer_private.h"

static bool
answer_reverse_octet(const uint8_t *l, uint32_t *v)
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

/* How many of the labels in front of in-addr.arpa, counted from the right, are octets: at most
 * four, stored in *ip from the most significant byte on. */
static unsigned
read_octets(const struct dns_query *q, unsigned n, uint32_t *ip)
{
	unsigned k = 0;
	uint32_t v;

	*ip = 0;
	for (; k < n && k < 4 && answer_reverse_octet(q->name + q->label[n - 1 - k], &v); k++)
		*ip |= v << (24 - 8 * k);
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

/* In the reverse zone of the fake IPs nobody else has any data. The zone's apex is at the octet in
 * which the subnet ends. `k` of the labels in front of in-addr.arpa are octets. */
static enum dns_verdict
answer_range(struct ask *a, const struct service *svc, unsigned k, unsigned apex)
{
	a->reverse = true;
	a->n -= apex;
	if (!snapshot_synced(a->s))
		return answer_fail(a, DNS_SERVFAIL);
	if (svc != NULL)
		return answer_pointer(a, svc);
	if (a->n == 0)
		return answer_apex(a);
	/* Between the apex and an address: an empty non-terminal, whether or not addresses below
	 * are used. */
	return answer_negative(a, a->n + apex == k && k < 4 ? DNS_NOERROR : DNS_NXDOMAIN);
}

enum dns_verdict
answer_reverse(struct ask *a)
{
	static const uint8_t arpa[] = "\7in-addr\4arpa";
	const struct dns_query *q = a->q;
	const struct service *svc = NULL;
	unsigned apex = ((unsigned)__builtin_popcount(a->z->mask) + 7) / 8, k;
	uint32_t ip;

	if (q->n_labels < 3 || memcmp(q->name + q->label[q->n_labels - 2], arpa, sizeof arpa) != 0)
		return DNS_FORWARD;
	a->n = q->n_labels - 2u;
	k = read_octets(q, a->n, &ip);
	if (k == 4 && a->n == 4 && ip != 0)
		svc = snapshot_find_ip(a->s, ip);
	if (apex > 0 && k >= apex && (ip & a->z->mask) == a->z->subnet)
		return answer_range(a, svc, k, apex);
	return svc != NULL ? answer_pointer(a, svc) : DNS_FORWARD;
}
