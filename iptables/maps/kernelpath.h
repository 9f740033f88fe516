/*
 * Keeps what the kernel carries up to date (service_maps.h): follows the snapshot, the health of
 * TCP endpoints (probe.h), other programs that serve ClusterIPs and NodePorts (kubeproxy.h) and
 * processes of the node that hold ports (held_ports.h), and reports when
 * the table must change. Its owner is iptables.c, which commits. Loop 0 only.
 *
 *	kernelpath_new(&d, &config);
 *	kernelpath_use(d, snapshot);	// and then, as after every call of config.changed:
 *	while (kernelpath_put(d, &batch, v6))
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
	bool (*relay)(void *arg, const struct service *s, const struct service_port *p, bool v6,
		struct slots_target *to); /* called with `arg`, see service_maps.h */
	loop_fn *changed; /* there are changes to put */
	void *arg;
};

void kernelpath_new(struct kernelpath **d, const struct kernelpath_config *config);
void kernelpath_free(struct kernelpath **d);
void kernelpath_use(struct kernelpath *d, const struct snapshot *s); /* takes its own reference */
/* The table in the kernel is a new one: everything must be put again. */
void kernelpath_all(struct kernelpath *d);
bool kernelpath_put(struct kernelpath *d, struct batch *b, bool v6);
/* The addresses of this node, at which NodePorts are served. */
void kernelpath_addresses(struct kernelpath *d, const struct address_list *own);
void kernelpath_settled(struct kernelpath *d);
bool kernelpath_carries(const struct kernelpath *d); /* whether it carries any port */
/* The results of `relay` have changed; call it before kernelpath_all. */
void kernelpath_relays(struct kernelpath *d);
/* There is no table: nothing is followed or probed until kernelpath_all. */
void kernelpath_rest(struct kernelpath *d);
void kernelpath_metrics(const struct kernelpath *d, struct metrics *m);
void kernelpath_state(const struct kernelpath *d, struct buf *out); /* JSON object */
/* What is called from outside: {"on","servedBy","kernel","proxy","troubled","first","ports":[{
 * "service","port","number","protocol","local","addresses":[..],"by","refused":[{"address","reason",
 * "why"}]}]}; ports: only the whole one. */
void kernelpath_external_state(struct kernelpath *d, struct buf *out, bool whole);
/* Services called from outside that cannot be served as they ask: "ns/name","ns/name"; returns how
 * many there are. */
/* As iptables_serves_external. */
bool kernelpath_serves_external(const struct kernelpath *d);
size_t kernelpath_external_troubled(struct kernelpath *d, struct buf *out);

#endif
