/*
 * ingress.redirect: lets unmodified programs of this host that dial node addresses (kube-apiserver
 * the kubelet's 10250, Prometheus 10255) reach the nodes through the tunnels. It holds the
 * listener, keeps the kernel's rules in step with the cluster's nodes
 * (hub/ingress/redirect_targets.h, iptables/maps/divert.h), and makes a client connection of each
 * redirected connection, with access rules, limits and audit as for all others. On the hub's loop.
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
	/* True once it is known which nodes exist and which are at the edge. Until then the set
	 * stays as it is. */
	bool (*known)(void *arg);
	/* The hub's own dials must carry this SO_MARK from now on; 0: none. */
	void (*mark)(void *arg, uint32_t mark);
	void *arg;
};

struct redirect *redirect_new(const struct redirect_config *config);
void redirect_free(struct redirect **r);
/* held: another hub has the same listener and the rules, so nothing is accepted or changed here.
 * Not held: the other hub did not take over, and this one continues. If something cannot be
 * acquired again then, that is reported like any problem with the rules, and retried. */
void redirect_hold(struct redirect *r, bool held);
/* Acquires what `wanted` needs: the listener's address and, if there were no rules yet, rules for
 * an empty set of nodes. */
int redirect_prepare(struct redirect *r, const struct hub_redirect *wanted, struct err *err);
void redirect_commit(struct redirect *r);
void redirect_abandon(struct redirect *r);
void redirect_poke(struct redirect *r);
void redirect_drain(struct redirect *r);
void redirect_metrics(const struct redirect *r, struct metrics *m);
/* A JSON object; "null" if it is not configured. */
void redirect_state(const struct redirect *r, struct buf *out);

#endif
