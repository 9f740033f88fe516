/*
 * Who may call a service: the annotation edgeway.io/allow-from, and the form in which
 * NetworkPolicies travel to the nodes. One line:
 *
 *	namespaces=shop,ops; pods=app in (web, api) | nodes=edgeway.io/site=berlin | addresses=10.0.0.0/8,!10.1.0.0/16
 *
 * `|` parts peers, of which one must match; `;` parts the conditions of a peer, all of which must
 * hold:
 *
 *	namespaces=A,B   pods of these namespaces; * for all
 *	pods=SELECTOR    pods with these labels (model/selector.h), without `namespaces` those of the service's own namespace; * for all
 *	nodes=SELECTOR   callers on nodes with these labels; * for all. Alone it also holds for processes of the nodes themselves
 *	addresses=CIDR,.. source addresses; with ! in front those that are left out
 *	callers=NAME,..  callers at the hub's ingress: cert:NAME, token:NAME or local
 *
 * `none` is nobody. What cannot be read lets nobody in: that is the caller's to say, with
 * allow_from_nobody(). Immutable, atomically reference-counted. Leaves; any thread.
 */
#ifndef EDGEWAY_MODEL_ALLOW_FROM_H
#define EDGEWAY_MODEL_ALLOW_FROM_H

#include "base/core/err.h"
#include "model/kube.h"

enum {
	ALLOW_FROM_TEXT_MAX = 16384, /* of a service in a view */
	ALLOW_FROM_PEERS_MAX = 256,
	ALLOW_FROM_NAMES_MAX = 1024, /* namespaces, networks and callers of one peer */
	ALLOW_FROM_GATES_MAX = 64, /* different sets of policies among one service's endpoints */
};
#define ALLOW_FROM_NONE "none"
#define ALLOW_FROM_KIND "allow-from" /* word by which an agent says that it enforces this */

struct allow_from;

/* Who calls. NULL and "" mean not known, which no condition takes but `*`. */
struct allow_caller {
	const char *ns; /* namespace of the pod; NULL: not a pod that is known */
	const struct kube_labels *labels; /* of the pod */
	const struct kube_labels *node; /* of the node it calls on; NULL: on none of the mesh */
	bool on_node; /* it calls on a node */
	const struct in6_addr *address; /* IPv4 as ::ffff:a.b.c.d; NULL: none */
	bool address_checked; /* the calling node has judged it by its address */
	const char *name; /* of a caller at the hub's ingress; NULL: it is none */
};

/* ns: the service's. *a is never NULL on success. -EINVAL with the reason: *a is NULL. */
int allow_from_parse(struct allow_from **a, const char *text, const char *ns, struct err *err);
struct allow_from *allow_from_nobody(void);
struct allow_from *allow_from_ref(struct allow_from *a); /* NULL stays NULL */
void allow_from_unref(struct allow_from **a);
bool allow_from_permits(const struct allow_from *a, const struct allow_caller *caller);

#endif
