/*
 * Temporary capture of pods' queries to the known upstreams. Their addresses are in a set of the
 * table, with elements that expire after CAPTURE_LIVES_MS unless renewed, so that a dead or frozen
 * agent captures nothing. Part of iptables.h; owns the list and handles its begin and end: flows
 * that began earlier are deleted from the kernel's table, because a resolver that keeps its port
 * would also keep its earlier translation. Loop 0 only.
 *
 *	capture_adopt(&c, list, n, now_ms);	// every few seconds; n 0: the end
 *	capture_put(&c, &batch, now_ms);
 *	capture_flows(&c, address, dns_port);	// after the commit, if capture_adopt returned true
 */
#ifndef EDGEWAY_IPTABLES_MAPS_CAPTURE_H
#define EDGEWAY_IPTABLES_MAPS_CAPTURE_H

#include "base/core/metric.h"
#include "iptables/iptables.h"
#include "iptables/maps/rules.h"

enum { CAPTURE_LIVES_MS = 10000, CAPTURE_UPSTREAMS_MAX = 64 };

struct capture {
	struct in6_addr upstreams[CAPTURE_UPSTREAMS_MAX]; /* IPv4 as ::ffff:a.b.c.d, sorted */
	size_t n;
	uint64_t renewed_ms; /* mono_ms, 0: never */
	uint64_t flows_ended;
};

/* Takes over the list (order and duplicates do not matter). True: it differs, or the old one had
 * expired, so capture_flows must follow the commit. */
bool capture_adopt(struct capture *c, const struct in6_addr *upstreams, size_t n, uint64_t now_ms);
/* Remaining lifetime; 0: nothing is captured. */
uint64_t capture_left_ms(const struct capture *c, uint64_t now_ms);
/* Adds to an open batch that installs the table of b->family or renews the capture. */
void capture_put(const struct capture *c, struct batch *b, uint64_t now_ms);
/* Ends UDP flows whose translation differs from the set; `addresses`: of our DNS, IPv4 and IPv6, ::
 * none of this family; NULL: it is not known (edgeway-agent --restore), and any address of this
 * machine counts. Flows of the host's own processes stay. */
void capture_flows(struct capture *c, const struct in6_addr *addresses, uint16_t dns_port);
void capture_state(const struct capture *c, struct buf *out, uint64_t now_ms); /* JSON object */

#endif
