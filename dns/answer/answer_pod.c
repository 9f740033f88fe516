#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "dns/answer/answer_private.h"
#include "model/check.h"
#include "model/pod_name.h"

enum { NAMESPACE = 2, ADDRESS = 3 }; /* labels of <address>.<namespace>.pod */

static enum dns_verdict
answer_pod_found(struct ask *a, const struct service *svc)
{
	const struct in6_addr six = answer_fake6(a, svc);

	service_note_use(svc, mono_ms());
	return svc->fake_ip != 0 ? answer_address(a, svc->fake_ip, &six)
				 : answer_negative(a, DNS_NXDOMAIN);
}

/* What the query names; false: nothing that a pod can be called. */
static bool
answer_pod_read(const struct ask *a, struct pod_ask *pod)
{
	size_t ns_len, len;
	const char *ns = answer_label(a, NAMESPACE, &ns_len),
		   *label = answer_label(a, ADDRESS, &len);

	if (!check_label(ns, ns_len) || !pod_name_ip(label, len, pod->address))
		return false;
	memcpy(pod->ns, ns, ns_len);
	pod->ns[ns_len] = '\0';
	pod->name = false;
	return true;
}

enum dns_verdict
answer_pod(struct ask *a)
{
	const struct service *svc;
	char name[POD_NAME_MAX];
	struct pod_ask pod;

	/* Which namespaces have pods is not known here: each may be an empty non-terminal. */
	if (a->n < ADDRESS)
		return answer_negative(a, DNS_NOERROR);
	if (a->n > ADDRESS || !answer_pod_read(a, &pod) || !pod_name_of(name, pod.address))
		return answer_negative(a, DNS_NXDOMAIN);
	svc = snapshot_find(a->s, pod.ns, strlen(pod.ns), name, strlen(name));
	if (svc != NULL)
		return answer_pod_found(a, svc);
	if (a->target != NULL)
		a->target->pod = pod;
	return DNS_ASK_POD;
}

/* Pods' addresses are private ones; the owners of others are the upstreams' to tell. */
static bool
answer_pod_is_private(const struct in6_addr *ip)
{
	const uint8_t *b = ip->s6_addr;

	return b[0] == 10 || (b[0] == 172 && (b[1] & 0xf0) == 16) || (b[0] == 192 && b[1] == 168) ||
		(b[0] == 100 && (b[1] & 0xc0) == 64);
}

enum dns_verdict
answer_pod_pointer(struct ask *a, const struct in6_addr *ip)
{
	struct pod_ask *pod = &a->target->pod;
	const bool six = a->q->n_labels > 6;

	if (!answer_asks(a, DNS_PTR) || !snapshot_synced(a->s) ||
		(six ? (ip->s6_addr[0] & 0xfe) != 0xfc : !answer_pod_is_private(ip)))
		return DNS_FORWARD;
	pod->ns[0] = '\0';
	pod->name = true;
	inet_ntop(six ? AF_INET6 : AF_INET, ip, pod->address, sizeof pod->address);
	return DNS_ASK_POD;
}

static enum dns_verdict
answer_pod_name(struct ask *a, const struct pod_ask *pod)
{
	uint8_t name[DNS_NAME_MAX];
	char text[POD_FOUND_MAX + 1];
	struct dns_writer w;
	size_t n;

	snprintf(text, sizeof text, "%s", pod->found);
	n = pod->answer == POD_KNOWN ? dns_name_from_text(name, text) : 0;
	if (n < 2 || n - 1 + a->z->name_len > sizeof name)
		return DNS_FORWARD;
	memcpy(name + n - 1, a->z->name, a->z->name_len);
	answer_begin(a, &w);
	dns_reply_record(&w, DNS_OWNER, DNS_PTR, a->z->ttl_s, name, n - 1 + a->z->name_len);
	return answer_finish(a, &w);
}

enum dns_verdict
dns_answer_pod(const struct dns_zone *z, const struct snapshot *s, const struct dns_query *q,
	struct dns_out *out, const struct pod_ask *pod)
{
	struct ask a = {.z = z, .s = s, .q = q, .out = out};

	out->len = 0;
	if (pod->name)
		return answer_pod_name(&a, pod);
	a.n = (unsigned)answer_labels_in_zone(z, q->name, q->name_len);
	if (pod->answer == POD_NONE || pod->answer == POD_MANY)
		return answer_negative(&a, DNS_NXDOMAIN);
	/* It may be gone again. */
	if (pod->answer == POD_KNOWN && answer_pod(&a) == DNS_ANSWERED)
		return DNS_ANSWERED;
	return answer_fail(&a, DNS_SERVFAIL);
}
