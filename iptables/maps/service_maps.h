/*
 * What the kernel carries by itself, as elements of the table's maps: UDP ports of services (where
 * it can translate to none of the endpoints: to a port of the agent), TCP ports that asked for it
 * (datapath kernel) and whose endpoints can all be dialled directly, and the ClusterIPs that are
 * caught. Holds what the kernel should have, and what differs from it. The table's owner
 * (iptables.c) puts the differences into transactions; nothing here sends. Loop 0.
 *
 *	service_maps_use(f, old, now);	// or service_maps_again, when endpoints died or live again
 *	while (service_maps_put(f, &batch))
 *		... commit ...
 *	service_maps_flows(f);	// what went with what is gone
 *
 * A table that was made anew is empty: service_maps_all makes everything a difference again.
 */
#ifndef EDGEWAY_IPTABLES_MAPS_SERVICE_MAPS_H
#define EDGEWAY_IPTABLES_MAPS_SERVICE_MAPS_H

#include "iptables/maps/slots.h"
#include "iptables/table/batch.h"
#include "model/snapshot.h"

struct service_maps;

struct service_maps_config {
	bool kernel; /* mesh.datapath: kernel, for TCP ports whose service says nothing */
	uint32_t subnet, mask; /* of the fake IPs; flows to them are ours */
	slots_alive_fn *alive; /* NULL: all are */
	/* Who carries a UDP port none of whose endpoints the kernel can translate to: false:
	 * nobody. NULL: nobody carries any. */
	bool (*relay)(void *arg, const struct service *s, const struct service_port *p,
		struct slots_target *to);
	void *relay_arg;
	void *arg;
};

struct service_maps_counts {
	size_t udp, tcp,
		cluster_ips; /* ports, addresses; udp with those that are carried elsewhere */
	size_t slots;
	size_t restricted, callers,
		/* ports that are not for all; pods that may use them; those for the node's own
		 * processes */
		hosts;
	uint64_t flows_ended, flow_failures;
};

void service_maps_new(struct service_maps **f, const struct service_maps_config *config);
void service_maps_free(struct service_maps **f);
/* Which ClusterIPs to serve too; MOST leaves out those by which pods reach the apiserver and the
 * cluster's own DNS. What is there stays until service_maps_again. */
enum service_maps_catch {
	SERVICE_MAPS_CATCH_NONE,
	SERVICE_MAPS_CATCH_MOST,
	SERVICE_MAPS_CATCH_ALL
};
void service_maps_catch(struct service_maps *f, enum service_maps_catch what);
/* old NULL: nothing before. */
void service_maps_use(
	struct service_maps *f, const struct snapshot *old, const struct snapshot *now);
void service_maps_again(struct service_maps *f, const struct snapshot *now);
void service_maps_all(struct service_maps *f);
/* There is no table: differences are of no use. */
void service_maps_skip(struct service_maps *f);
/* The next differences, some thousand elements at most; false: there are none left. */
bool service_maps_put(struct service_maps *f, struct batch *b);
/* Is there something for service_maps_flows to do? Also afterwards: it ends some thousand at a
 * time. */
bool service_maps_flows_due(const struct service_maps *f);
void service_maps_flows(struct service_maps *f);
const struct service_maps_counts *service_maps_counts(const struct service_maps *f);

/* Every endpoint of TCP ports that the kernel carries, alive or not; some more than once. */
typedef void service_maps_target_fn(void *arg, const struct slots_target *t);
void service_maps_targets(const struct service_maps *f, const struct snapshot *s,
	service_maps_target_fn *fn, void *arg);

#endif
