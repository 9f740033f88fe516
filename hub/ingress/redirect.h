/*
 * ingress.redirect: programs of this host that dial the addresses of nodes (kube-apiserver the
 * kubelet's 10250, Prometheus 10255) and know nothing of us reach them through the tunnels. Holds
 * the listener, keeps the rules of the kernel at what the cluster's nodes are
 * (hub/ingress/redirect_targets.h, iptables/maps/divert.h), and makes a visit of each connection
 * that the rules lead here: it goes through the rules of access, the limits and the audit like all
 * others. On the hub's loop.
 *
 *	redirect = redirect_new(&config);
 *	rc = redirect_prepare(redirect, &wanted, &err);	// nothing that works has changed yet
 *	redirect_commit(redirect);			// or redirect_abandon
 *	redirect_poke(redirect);			// the cluster's objects have changed
 *	redirect_drain(redirect);			// no new ones; those that are there go on
 *	redirect_free(&redirect);			// after ingress_free; the rules are gone then
 */
#ifndef EDGEWAY_HUB_INGRESS_REDIRECT_H
#define EDGEWAY_HUB_INGRESS_REDIRECT_H

#include "base/os/addresses.h"
#include "hub/hub.h"
#include "hub/ingress/ingress.h"
#include "model/cluster/cluster.h"

struct redirect;

struct redirect_config {
	struct loop *loop;
	struct addresses *addresses; /* of this machine */
	const struct cluster *cluster;
	struct ingress *ingress;
	struct self_guard *guard; /* outlives it */
	bool (*at_edge)(void *arg, const char *node);
	/* Is it known which nodes there are, and which are at the edge? Until then the set stays as
	 * it is. */
	bool (*known)(void *arg);
	/* The hub's own dials must have this SO_MARK from now on; 0: none. */
	void (*mark)(void *arg, uint32_t mark);
	void *arg;
};

struct redirect *redirect_new(const struct redirect_config *config);
void redirect_free(struct redirect **r);
/* Another hub has the same listener, and the rules: nothing is accepted or changed here; or it has
 * not come, and this one goes on. What cannot be had again then is told as any trouble with the
 * rules, and tried again. */
void redirect_hold(struct redirect *r, bool held);
/* Takes what `wanted` needs: the listener's address, and where there were no rules yet those for no
 * node. */
int redirect_prepare(struct redirect *r, const struct hub_redirect *wanted, struct err *err);
void redirect_commit(struct redirect *r);
void redirect_abandon(struct redirect *r);
void redirect_poke(struct redirect *r);
void redirect_drain(struct redirect *r);
void redirect_metrics(const struct redirect *r, struct metrics *m);
/* An object; "null" where it is not configured. */
void redirect_state(const struct redirect *r, struct buf *out);

#endif
