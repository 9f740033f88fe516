/*
 * The spine of what the kernel carries (frontends.h): follows the snapshot, the health of TCP
 * endpoints (probe.h) and who serves ClusterIPs (foreign.h), and says when the table must change.
 * Its owner is iptables.c, which commits. Loop 0 only.
 *
 *	kernelpath_new(&d, &config);
 *	kernelpath_use(d, snapshot);	// and then, as after every call of config.changed:
 *	while (kernelpath_put(d, &batch))
 *		... commit ...
 *	kernelpath_settled(d);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_KERNELPATH_H
#define EDGEWAY_IPTABLES_MAPS_KERNELPATH_H

#include "base/core/metric.h"
#include "iptables/iptables.h"
#include "iptables/maps/slots.h"
#include "iptables/table/batch.h"

struct kernelpath;

struct kernelpath_config {
	const struct iptables_config *iptables; /* borrowed for the call */
	bool (*relay)(void *arg, const struct service *s, const struct service_port *p,
		struct slots_target *to); /* with `arg`, as frontends.h has it */
	loop_fn *changed; /* there is something to put */
	void *arg;
};

void kernelpath_new(struct kernelpath **d, const struct kernelpath_config *config);
void kernelpath_free(struct kernelpath **d);
void kernelpath_use(
	struct kernelpath *d, const struct snapshot *s); /* takes a reference of its own */
/* The table in the kernel is a new one: all is to be put again. */
void kernelpath_all(struct kernelpath *d);
bool kernelpath_put(struct kernelpath *d, struct batch *b);
void kernelpath_settled(struct kernelpath *d);
bool kernelpath_carries(const struct kernelpath *d); /* any port at all */
/* `relay` says something else now; before kernelpath_all. */
void kernelpath_relays(struct kernelpath *d);
/* No table: nothing is watched or probed until kernelpath_all. */
void kernelpath_rest(struct kernelpath *d);
void kernelpath_metrics(const struct kernelpath *d, struct metrics *m);
void kernelpath_state(const struct kernelpath *d, struct buf *out); /* JSON object */

#endif
