/*
 * Queries of pods to the known upstreams, captured for a while: the addresses in the set of the
 * table, with elements that expire in CAPTURE_LIVES_MS unless renewed, so that a dead or frozen
 * agent takes no query. Part of the spine (iptables.h): it owns the list and what it takes to begin
 * and end: flows that began before are deleted from the kernel's table, since a resolver that keeps
 * its port would keep the way it once had. Loop 0 only.
 *
 *	capture_use(&c, batch_socket, list, n);	// every few seconds; n 0: the end
 */
#ifndef EDGEWAY_IPTABLES_MAPS_CAPTURE_H
#define EDGEWAY_IPTABLES_MAPS_CAPTURE_H

#include "base/core/metric.h"
#include "iptables/iptables.h"
#include "iptables/maps/rules.h"

enum { CAPTURE_LIVES_MS = 10000, CAPTURE_UPSTREAMS_MAX = 64 };

struct capture {
	uint32_t upstreams[CAPTURE_UPSTREAMS_MAX]; /* host byte order, in order */
	size_t n;
	uint64_t renewed_ms; /* mono_ms, 0: never */
	uint64_t begins, flows_ended, failures;
};

/* Adopts the list (order and doubles do not matter); true: others than before, or the old ones had
 * expired, so that capture_flows must follow the commit. */
bool capture_adopt(struct capture *c, const uint32_t *upstreams, size_t n, uint64_t now_ms);
/* What is left to live; 0: nothing is captured. */
uint64_t capture_left_ms(const struct capture *c, uint64_t now_ms);
/* Into an open batch that installs the table or renews. */
void capture_put(const struct capture *c, struct batch *b, uint64_t now_ms);
/* Ends UDP flows that go another way than the set says; `address`: of our DNS, 0 when it is gone.
 * Those of the host's own processes stay. */
void capture_flows(struct capture *c, uint32_t address, uint16_t dns_port);
void capture_metrics(const struct capture *c, struct metrics *m, uint64_t now_ms);
void capture_state(const struct capture *c, struct buf *out, uint64_t now_ms); /* JSON object */

#endif
