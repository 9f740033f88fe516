/*
 * How many nodes may be on their way into step at once: each costs the hub its digests, bundles and
 * what waits in its socket, so that thousands at once use the memory of all and none finishes
 * early. Counts those that have begun within the last SYNC_GATE_MS and are not done; those that
 * take longer, a site on slow links for instance, keep nobody else out. Plain data, no clock.
 *
 *	if (!sync_gate_open(&gate, now_ms))
 *		refuse with 503 and Retry-After;
 *	ticket = sync_gate_begin(&gate, now_ms);
 *	sync_gate_end(&gate, &ticket);	// in step, or gone
 */
#ifndef EDGEWAY_HUB_SYNC_SYNC_GATE_H
#define EDGEWAY_HUB_SYNC_SYNC_GATE_H

#include <stdbool.h>
#include <stdint.h>

enum { SYNC_GATE_MOST = 1024, SYNC_GATE_MS = 10 * 1000 };

struct sync_gate {
	uint64_t window; /* number of the half of SYNC_GATE_MS that is now */
	unsigned now, before; /* under way, begun in this window and in the one before */
	uint64_t refused;
};

bool sync_gate_open(struct sync_gate *g, uint64_t now_ms);
/* Returns a ticket, which is not 0. */
uint64_t sync_gate_begin(struct sync_gate *g, uint64_t now_ms);
/* Sets the ticket to 0; does nothing if it is. */
void sync_gate_end(struct sync_gate *g, uint64_t *ticket);

#endif
