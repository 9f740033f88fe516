/*
 * How the mesh answers a query: a pure function of the query, the snapshot and the zone; any
 * thread, no allocation. Kubernetes DNS specification 1.1.0, with fake IPs in place of ClusterIPs;
 * RFC 2308 (negative answers with SOA), RFC 8020 (empty non-terminals are NODATA), RFC 8482 (ANY).
 *
 * Names under the cluster domain are answered here and nowhere else. Names outside it are never
 * answered here, except for NXDOMAIN to svc.<cluster domain>.<search domain>. We also serve the
 * reverse zones of the fake IPs, whether the snapshot holds them or not, and PTR of the ClusterIPs
 * that the snapshot holds. Names of pods by their address, <address, dashed>.<namespace>.pod.
 * <cluster domain>, and PTR of private addresses may be known to the hub alone: its answer to
 * DNS_ASK_POD is written by dns_answer_pod.
 */
#ifndef EDGEWAY_DNS_ANSWER_ANSWER_H
#define EDGEWAY_DNS_ANSWER_ANSWER_H

#include "dns/answer/message.h"
#include "model/fake6.h"
#include "model/pod_ask.h"
#include "model/snapshot.h"

struct dns_zone {
	uint8_t name[DNS_NAME_MAX]; /* the cluster domain in wire form */
	uint8_t name_len;
	uint32_t ttl_s;
	uint32_t address; /* of ns.dns.<domain>: where we listen, host byte order */
	/* the same; ::: IPv6 is not served, and no fake IP has an AAAA */
	struct in6_addr address6;
	uint32_t subnet, mask; /* of the fake IPs; we serve their reverse zone; mask 0: none */
	struct fake6 subnet6; /* of the IPv6 ones; bits 0: none */
};

/* Leaves the subnets unset. Returns 0, or -EINVAL if the domain is not a valid name or leaves
 * no room for service names under it. */
int dns_zone_init(struct dns_zone *z, const char *domain, uint32_t ttl_s);

enum dns_verdict {
	DNS_ANSWERED, /* out->len bytes */
	DNS_FORWARD, /* not ours: ask upstream */
	DNS_ASK_POD, /* the hub knows target->pod, or nobody does */
	DNS_CHASE, /* answered with a CNAME out of the zone; its addresses are those of *target */
};

struct dns_target {
	uint8_t name[DNS_NAME_MAX]; /* wire form */
	uint8_t len;
	/* DNS_ASK_POD: ns, address and name; where its name is wanted and there is none, the query
	 * is one for upstreams */
	struct pod_ask pod;
};

/* `q` was parsed with DNS_PARSE_OK; out->size is 512..65535. */
enum dns_verdict dns_answer(const struct dns_zone *z, const struct snapshot *s,
	const struct dns_query *q, struct dns_out *out, struct dns_target *target);
/* After DNS_ASK_POD, with the answer in pod; `s` is the newest one. DNS_FORWARD: ask upstream. */
enum dns_verdict dns_answer_pod(const struct dns_zone *z, const struct snapshot *s,
	const struct dns_query *q, struct dns_out *out, const struct pod_ask *pod);

#endif
