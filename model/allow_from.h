/*
 * Who may call a service: the annotation edgeway.io/allow-from, and the form in which
 * NetworkPolicies travel to the nodes. One line:
 *
 *	namespaces=shop,ops; pods=app in (web, api) | nodes=edgeway.io/site=berlin
 *		| addresses=10.0.0.0/8,!10.1.0.0/16
 *
 * `|` separates peers, of which one must match; `;` separates the conditions of a peer, all of
 * which must hold:
 *
 *	namespaces=A,B   pods of these namespaces; * for all
 *	pods=SELECTOR    pods with these labels (model/selector.h); * for all. Without `namespaces`
 *	                 those of the service's own namespace
 *	nodes=SELECTOR   callers on nodes with these labels; * for all. Alone it also covers
 *	                 processes of the nodes themselves
 *	addresses=CIDR,.. source addresses; a leading ! excludes a range
 *	callers=NAME,..  callers at the hub's ingress: cert:NAME, token:NAME or local
 *
 * `none` permits nobody. When a text cannot be parsed, the caller must use allow_from_nobody(),
 * which permits nobody. Immutable, atomically reference-counted. Leaves; any thread.
 */
#ifndef EDGEWAY_MODEL_ALLOW_FROM_H
#define EDGEWAY_MODEL_ALLOW_FROM_H

#include "base/core/err.h"
#include "model/kube.h"

enum {
	ALLOW_FROM_TEXT_MAX = 16384, /* of a service in a view */
	ALLOW_FROM_PEERS_MAX = 256,
	ALLOW_FROM_NAMES_MAX = 1024, /* namespaces, networks and callers of one peer */
	ALLOW_FROM_GATES_MAX = 64, /* different policies among one service's endpoints */
};
#define ALLOW_FROM_NONE "none"
#define ALLOW_FROM_KIND "allow-from" /* word by which an agent announces that it enforces this */

struct allow_from;

/* A caller. NULL and "" mean unknown, which only the condition `*` matches. */
struct allow_caller {
	const char *ns; /* namespace of the pod; NULL: not a known pod */
	const struct kube_labels *labels; /* of the pod */
	const struct kube_labels *node; /* of the caller's node; NULL: on no node of the mesh */
	bool on_node; /* the caller is on a node */
	const struct in6_addr *address; /* IPv4 as ::ffff:a.b.c.d; NULL: none */
	bool address_checked; /* the caller's node has already checked the address */
	const char *name; /* of a caller at the hub's ingress; NULL: not such a caller */
};

/* ns: the service's. *a is never NULL on success. -EINVAL with the reason: *a is NULL. */
int allow_from_parse(struct allow_from **a, const char *text, const char *ns, struct err *err);
struct allow_from *allow_from_nobody(void);
struct allow_from *allow_from_ref(struct allow_from *a); /* NULL stays NULL */
void allow_from_unref(struct allow_from **a);
bool allow_from_permits(const struct allow_from *a, const struct allow_caller *caller);

#endif
