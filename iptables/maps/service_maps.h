/*
 * What the kernel carries by itself, as elements of the table's maps: UDP ports of services (to a
 * port of the agent where the kernel can translate to none of the endpoints), TCP ports that
 * requested it (datapath kernel) and whose endpoints can all be reached directly, the ClusterIPs
 * that we serve, and what is called from outside (external.h), which the kernel carries or leads to
 * the proxy. Holds the wanted elements, and the differences from the kernel's. The
 * table's owner (iptables.c) puts the differences into transactions; nothing is sent here. Loop 0.
 *
 *	service_maps_use(f, old, now);	// or service_maps_again, when endpoints died or live again
 *	while (service_maps_put(f, &batch, v6))
 *		... commit ...
 *	service_maps_flows(f);	// ends flows to endpoints that are gone
 *
 * A newly created table is empty: service_maps_all makes every element a difference again.
 */
#ifndef EDGEWAY_IPTABLES_MAPS_SERVICE_MAPS_H
#define EDGEWAY_IPTABLES_MAPS_SERVICE_MAPS_H

#include "iptables/maps/external.h"
#include "iptables/maps/slots.h"
#include "iptables/table/batch.h"
#include "model/fake6.h"
#include "model/snapshot.h"

struct service_maps;

struct service_maps_config {
	bool kernel; /* mesh.datapath: kernel, for TCP ports whose service does not specify it */
	uint32_t subnet, mask; /* of the fake IPs; flows to them are ours */
	struct fake6 subnet6;
	slots_alive_fn *alive; /* NULL: all are alive */
	/* Finds the port that carries a UDP port none of whose endpoints the kernel can translate
	 * to; false: none. NULL: there never is one. */
	bool (*relay)(void *arg, const struct service *s, const struct service_port *p, bool v6,
		struct slots_target *to);
	void *relay_arg;
	void *arg;
};

struct service_maps_counts {
	size_t udp, tcp, cluster_ips; /* ports, addresses; udp includes relayed ports */
	size_t external_kernel, external_proxy; /* addresses with a port, called from outside */
	size_t slots;
	size_t restricted, callers,
		/* restricted ports; pods that may use them; restricted ports that the node's
		 * processes may use */
		hosts;
	uint64_t flows_ended;
};

void service_maps_new(struct service_maps **f, const struct service_maps_config *config);
void service_maps_free(struct service_maps **f);
/* Which ClusterIPs to serve too; MOST leaves out those by which pods reach the apiserver and the
 * cluster's own DNS. Takes effect at service_maps_again. */
enum service_maps_catch {
	SERVICE_MAPS_CATCH_NONE,
	SERVICE_MAPS_CATCH_MOST,
	SERVICE_MAPS_CATCH_ALL
};
void service_maps_catch(struct service_maps *f, enum service_maps_catch what);
/* Whether to serve what is called from outside, and at which addresses of this node. Return whether
 * that has changed: then service_maps_again must follow. */
bool service_maps_serve_external(struct service_maps *f, bool on);
bool service_maps_addresses(struct service_maps *f, const struct address_list *own);
/* Have processes of the node taken ports of this snapshot, or released them? As above. */
bool service_maps_look_external(struct service_maps *f, const struct snapshot *now);
/* Calls fn for each address and port by which the snapshot's services are called from outside. */
typedef void service_maps_external_fn(void *arg, const struct service *s,
	const struct service_port *p, const struct key *k, enum external_verdict v, bool by_kernel);
void service_maps_external(struct service_maps *f, const struct snapshot *now,
	service_maps_external_fn *fn, void *arg);
/* old NULL: there was none before. */
void service_maps_use(
	struct service_maps *f, const struct snapshot *old, const struct snapshot *now);
void service_maps_again(struct service_maps *f, const struct snapshot *now);
void service_maps_all(struct service_maps *f);
/* There is no table: discards the differences. */
void service_maps_skip(struct service_maps *f);
/* Puts the next differences, some thousand elements at most; false: none are left. v6: there is a
 * table of IPv6. b->family is IPv4's before and after. */
bool service_maps_put(struct service_maps *f, struct batch *b, bool v6);
/* Whether service_maps_flows has something to do. Check again after it: one call ends some thousand
 * flows at most. */
bool service_maps_flows_due(const struct service_maps *f);
void service_maps_flows(struct service_maps *f);
const struct service_maps_counts *service_maps_counts(const struct service_maps *f);

/* Called for every endpoint of TCP ports that the kernel carries, alive or not; for some more than
 * once. */
typedef void service_maps_target_fn(void *arg, const struct slots_target *t);
void service_maps_targets(const struct service_maps *f, const struct snapshot *s,
	service_maps_target_fn *fn, void *arg);

#endif
