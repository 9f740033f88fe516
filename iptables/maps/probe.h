/*
 * Are the endpoints alive that the kernel translates TCP to? Nobody in the data path would notice
 * that one is not, so the agent dials each now and then and hangs up at once. (Why here and not in
 * lb/: the two folders know nothing of each other, and the proxy judges its own endpoints by
 * traffic.) An endpoint is dead after PROBE_FAILS failed dials in a row, alive again after one that
 * works; one that was never dialled counts as alive. With many endpoints the rounds take longer:
 * the number of dials at once and in a second is bounded. Loop 0 only.
 *
 *	probes_new(&p, loop, mark, on_change, self);
 *	probes_begin(p); probes_want(p, &target) ...; probes_end(p);	// the whole list, again and again
 *	if (probes_alive(p, &target)) ...
 */
#ifndef EDGEWAY_IPTABLES_MAPS_PROBE_H
#define EDGEWAY_IPTABLES_MAPS_PROBE_H

#include "base/core/loop.h"
#include "iptables/maps/slots.h"

enum {
	PROBE_FAILS = 2,
	PROBE_EVERY_MS = 1000, /* at best */
	PROBE_AGAIN_MS = 200, /* after the first failure */
	PROBE_TIMEOUT_MS = 1000,
};

struct probes;

/* fn comes after dials of one turn by which endpoints died or came back. */
void probes_new(struct probes **p, struct loop *loop, uint32_t mark, loop_fn *fn, void *arg);
void probes_free(struct probes **p);
void probes_begin(struct probes *p);
void probes_want(struct probes *p, const struct slots_target *t);
void probes_end(struct probes *p); /* those that were not named since probes_begin are forgotten */
bool probes_alive(const struct probes *p, const struct slots_target *t);
size_t probes_count(const struct probes *p);
size_t probes_dead(const struct probes *p);

#endif
