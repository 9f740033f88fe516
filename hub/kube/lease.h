/*
 * A Lease of the API server (coordination.k8s.io): of several replicas one holds it, and does what
 * only one is to do. It is asked for when somebody wants it first, and from then on renewed until
 * lease_free; another replica takes it over LEASE_DURATION_S after the holder's last renewal, by
 * its own clock.
 *
 *   READ ──404──► CREATE          READ, CREATE and WRITE that fail: again after kube_wait_ms
 *     │ ours, free or expired
 *     └──► WRITE ──► held ──LEASE_RENEW_MS──► WRITE        409: READ
 *
 * On the hub's loop; `changed` comes from it when the lease is got or lost.
 *
 *	l = lease_new(&config);
 *	lease_want(l);
 *	if (lease_held(l))
 */
#ifndef EDGEWAY_HUB_KUBE_LEASE_H
#define EDGEWAY_HUB_KUBE_LEASE_H

#include "base/core/buf.h"
#include "hub/kube/kube_api.h"

enum {
	LEASE_DURATION_S = 30,
	LEASE_RENEW_MS = 10 * 1000,
	LEASE_LOOK_MS = 5 * 1000, /* while another one holds it */
	LEASE_FORBIDDEN_MS = 30 * 1000,
};

struct lease;

struct lease_config { /* texts are copied */
	struct loop *loop;
	struct kube_api *api;
	const char *ns, *name;
	const char *rights; /* what is missing when the server answers 403 */
	loop_fn *changed;
	void *arg;
};

struct lease *lease_new(const struct lease_config *config);
/* Does not give the lease back: it expires. */
void lease_free(struct lease **l);
void lease_want(struct lease *l);
bool lease_held(const struct lease *l);
/* Why it can be neither read nor written, with the remedy; "": it can, or nobody wants it. */
const char *lease_problem(const struct lease *l);
/* {"name","wanted","held","holder","problem"} */
void lease_state(const struct lease *l, struct buf *out);

#endif
