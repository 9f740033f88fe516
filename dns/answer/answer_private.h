/*
 * Shared by the files of dns/answer/answer: one query being answered, and the functions that end
 * it. answer.c has the entry point and the zone's own names, answer_service.c what lies under
 * svc.<domain>, answer_pod.c what lies under pod.<domain>, answer_reverse.c addresses. No state of
 * their own; any thread.
 *
 *	answer_begin(a, &w);
 *	dns_reply_record(&w, ...);
 *	return answer_finish(a, &w);
 */
#ifndef EDGEWAY_DNS_ANSWER_ANSWER_PRIVATE_H
#define EDGEWAY_DNS_ANSWER_ANSWER_PRIVATE_H

#include "dns/answer/answer.h"

/* Labels in front of the zone are counted from the zone outwards: 1 is the nearest. */
struct ask {
	const struct dns_zone *z;
	const struct snapshot *s;
	const struct dns_query *q;
	struct dns_out *out;
	struct dns_target *target;
	unsigned n; /* labels in front of the zone */
	bool reverse; /* the zone is a reverse zone of the fake IPs */
};

const char *answer_label(const struct ask *a, unsigned i, size_t *len);
bool answer_label_is(const struct ask *a, unsigned i, const char *text);
/* Offset in the message of the name that begins with label i; 0: the zone itself. */
uint16_t answer_name_at(const struct ask *a, unsigned i);
bool answer_asks(const struct ask *a, enum dns_type type);
size_t answer_put_label(uint8_t *to, const char *text, size_t len);
/* The service's name in wire form; 0 when it would be too long for a name. */
size_t answer_put_service(
	uint8_t to[DNS_NAME_MAX], const struct dns_zone *z, const struct service *svc);
/* Labels of `name` in front of the cluster domain, or -1 when it does not lie in it. */
int answer_labels_in_zone(const struct dns_zone *z, const uint8_t *name, size_t len);

void answer_put_soa(const struct ask *a, struct dns_writer *w);
void answer_begin(struct ask *a, struct dns_writer *w);
enum dns_verdict answer_finish(struct ask *a, struct dns_writer *w);
enum dns_verdict answer_fail(struct ask *a, enum dns_rcode rcode);
/* NXDOMAIN or NODATA (NOERROR): both with SOA (RFC 2308). */
enum dns_verdict answer_negative(struct ask *a, enum dns_rcode rcode);
/* The service's IPv6 fake address; ::: IPv6 is not served, or cannot carry all of its ports. */
struct in6_addr answer_fake6(const struct ask *a, const struct service *svc);
/* A and AAAA, as asked; 0 and ::: there is none, and NODATA where nothing is left. */
enum dns_verdict answer_address(struct ask *a, uint32_t ip, const struct in6_addr *ip6);
enum dns_verdict answer_apex(struct ask *a);

/* --- answer_service.c ----------------------------------------------------------------------- */
enum dns_verdict answer_svc(struct ask *a);

/* --- answer_pod.c --------------------------------------------------------------------------- */
/* Names under pod.<domain>. */
enum dns_verdict answer_pod(struct ask *a);
/* The name of an address that no service has: may a pod have it? */
enum dns_verdict answer_pod_pointer(struct ask *a, const struct in6_addr *ip);

/* --- answer_reverse.c ----------------------------------------------------------------------- */
enum dns_verdict answer_reverse(struct ask *a);

#endif
