/*
 * What the kernel carries by itself, as elements of the table's maps: UDP ports of services (where
 * it can translate to none of the endpoints: to a port of the agent), TCP ports that asked for it
 * (datapath kernel) and whose endpoints can all be dialled directly, and the ClusterIPs that are
 * caught. Holds what the kernel should have, and what differs from it. The table's owner
 * (iptables.c) puts the differences into transactions; nothing here sends. Loop 0.
 *
 *	frontends_use(f, old, now);	// or frontends_again, when endpoints died or live again
 *	while (frontends_put(f, &batch))
 *		... commit ...
 *	frontends_flows(f);	// what went with what is gone
 *
 * A table that was made anew is empty: frontends_all makes everything a difference again.
 */
#ifndef EDGEWAY_IPTABLES_MAPS_FRONTENDS_H
#define EDGEWAY_IPTABLES_MAPS_FRONTENDS_H

#include "iptables/maps/plan.h"
#include "iptables/table/batch.h"
#include "model/snapshot.h"

struct frontends;

struct frontends_config {
	bool kernel; /* mesh.datapath: kernel, for TCP ports whose service says nothing */
	uint32_t subnet, mask; /* of the fake IPs; flows to them are ours */
	plan_alive_fn *alive; /* NULL: all are */
	/* Who carries a UDP port none of whose endpoints the kernel can translate to: false:
	 * nobody. NULL: nobody carries any. */
	bool (*relay)(void *arg, const struct service *s, const struct service_port *p,
		struct plan_target *to);
	void *relay_arg;
	void *arg;
};

struct frontends_counts {
	size_t udp, tcp,
		cluster_ips; /* ports, addresses; udp with those that are carried elsewhere */
	size_t slots;
	size_t restricted, callers,
		/* ports that are not for all; pods that may use them; those for the node's own
		 * processes */
		hosts;
	uint64_t flows_ended, flow_failures;
};

void frontends_new(struct frontends **f, const struct frontends_config *config);
void frontends_free(struct frontends **f);
/* Which ClusterIPs to serve too; MOST leaves out those by which pods reach the apiserver and the
 * cluster's own DNS. What is there stays until frontends_again. */
enum frontends_catch { FRONTENDS_CATCH_NONE, FRONTENDS_CATCH_MOST, FRONTENDS_CATCH_ALL };
void frontends_catch(struct frontends *f, enum frontends_catch what);
/* old NULL: nothing before. */
void frontends_use(struct frontends *f, const struct snapshot *old, const struct snapshot *now);
void frontends_again(struct frontends *f, const struct snapshot *now);
void frontends_all(struct frontends *f);
/* There is no table: differences are of no use. */
void frontends_skip(struct frontends *f);
/* The next differences, some thousand elements at most; false: there are none left. */
bool frontends_put(struct frontends *f, struct batch *b);
/* Is there something for frontends_flows to do? Also afterwards: it ends some thousand at a
 * time. */
bool frontends_flows_due(const struct frontends *f);
void frontends_flows(struct frontends *f);
const struct frontends_counts *frontends_counts(const struct frontends *f);

/* Every endpoint of TCP ports that the kernel carries, alive or not; some more than once. */
typedef void frontends_target_fn(void *arg, const struct plan_target *t);
void frontends_targets(
	const struct frontends *f, const struct snapshot *s, frontends_target_fn *fn, void *arg);

#endif
