/*
 * Health of the endpoints that the kernel translates TCP to. Nothing in the data path would notice
 * a dead one, so the agent connects to each periodically and closes at once. (It is here and not in
 * lb/ because the two folders do not depend on each other, and the proxy judges its own endpoints
 * by traffic.) An endpoint is dead after PROBE_FAILS failed connects in a row, and alive again
 * after one success; before the first connect it counts as alive. The number of connects at once
 * and per second is bounded, so with many endpoints the rounds take longer. Loop 0 only.
 *
 *	probes_new(&p, loop, mark, on_change, self);
 *	probes_begin(p); probes_want(p, &target) ...; probes_end(p);	// the whole list each time
 *	if (probes_alive(p, &target)) ...
 */
#ifndef EDGEWAY_IPTABLES_MAPS_PROBE_H
#define EDGEWAY_IPTABLES_MAPS_PROBE_H

#include "base/core/loop.h"
#include "iptables/maps/slots.h"

enum {
	PROBE_FAILS = 2,
	PROBE_EVERY_MS = 1000, /* at least */
	PROBE_AGAIN_MS = 200, /* after the first failure */
	PROBE_TIMEOUT_MS = 1000,
};

struct probes;

/* fn is called after the connects of one tick by which endpoints died or came back. */
void probes_new(struct probes **p, struct loop *loop, uint32_t mark, loop_fn *fn, void *arg);
void probes_free(struct probes **p);
void probes_begin(struct probes *p);
void probes_want(struct probes *p, const struct slots_target *t);
void probes_end(struct probes *p); /* forgets those not named since probes_begin */
bool probes_alive(const struct probes *p, const struct slots_target *t);
size_t probes_count(const struct probes *p);
size_t probes_dead(const struct probes *p);

#endif
