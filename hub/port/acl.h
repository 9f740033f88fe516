/*
 * The access rules of the hub (`access`, doc/edgeway-hub.8): who may reach what through it. Closed
 * unless a rule opens it; without any rules, programs of this host, and callers that a listener's
 * own clientCA has admitted, may reach all objects of the cluster. Pure.
 *
 *	from   192.0.2.0/24        a source address or network
 *	       cert:NAME           the common name of a client certificate that the listener's clientCA has signed
 *	       token:NAME          a bearer token, given by its tokenSHA256; who came with a secret that no rule of the name has any more has none
 *	       NAME                a certificate or a token of this name
 *	       node:NAME           a node that requests endpoints of services; globs allowed. Without such rules every node may reach those
 *	                           of all services; a rule that opens cloud/... alone does not count as one
 *	       local               a program of this host: by loopback, by a Unix socket, or by ingress.redirect (hub/port/caller.h)
 *	to     *                   everything but addresses of the hub itself (hub/port/self_guard.h)
 *	       NODE[:PORTS]        a node, globs allowed: edge-1:10250, edge-*:9100-9105, *:10250
 *	       NAMESPACE/SERVICE[:PORTS], pod/NAMESPACE/POD[:PORTS]
 *	       cloud/HOST[:PORTS], cloud/CIDR[:PORTS]   dialled by the hub itself
 *	       cloud/NAMESPACE/SERVICE[:PORTS]  from node:NAME: endpoints of the service that no Pod stands for. Nodes have these by this
 *	                           word, or one that opens the service itself, alone
 *	       hub:web             the page of the hub itself (hub/page/web.h); no other word opens it, not even *. Where no rule names it, callers
 *	                           of this machine, and those whom its clientCA has admitted, may see it
 *	       site/SITE/CIDR[:PORTS]  an address that a node of the site announces and no object of the cluster has; globs allowed
 *
 *	rc = acl_new(rules, &access, &err);
 *	if (!acl_check(access, &caller, &target))	// 403
 */
#ifndef EDGEWAY_HUB_PORT_ACL_H
#define EDGEWAY_HUB_PORT_ACL_H

#include "base/conf/opt.h"
#include "base/conf/tree.h"
#include "base/core/buf.h"
#include "hub/port/caller.h"

enum { ACL_RULES_MAX = 1024 };

enum target_kind {
	TARGET_NODE,
	TARGET_POD,
	TARGET_SERVICE,
	TARGET_CLOUD_SERVICE, /* endpoints of a service that no Pod stands for, for a node */
	TARGET_CLOUD,
	TARGET_SITE,
	TARGET_WEB
};

struct acl_target {
	enum target_kind kind;
	const char *node; /* TARGET_NODE */
	const char *ns, *name; /* of the pod or the service; name: of the site */
	const char *host; /* TARGET_CLOUD, TARGET_SITE */
	uint16_t port;
};

struct acl;

/* rules: the list from the configuration, or NULL. -EINVAL: err names the line. */
int acl_new(const struct tree_node *rules, struct acl **out, struct err *err);
void acl_free(struct acl **a);
/* Replaces the rules of `a` by those of `fresh`, which is taken. */
void acl_adopt(struct acl *a, struct acl **fresh);
size_t acl_count(const struct acl *a);
/* False if no target whatsoever but the hub's page is open to the caller: then it is not told what
 * there is. */
bool acl_admits(const struct acl *a, const struct caller *caller);
bool acl_check(const struct acl *a, const struct caller *caller, const struct acl_target *target);
/* The same; also appends a sentence that names the rule that opens the target, or says why none
 * does. */
bool acl_explain(const struct acl *a, const struct caller *caller, const struct acl_target *target,
	struct buf *why);
/* True if a rule names this kind of target explicitly, not by *. */
bool acl_names(const struct acl *a, enum target_kind kind);
/* True if a rule is from node:NAME, and opens more than cloud/...: it says which services nodes may
 * have. a may be NULL. */
bool acl_names_nodes(const struct acl *a);
/* True if a rule opens the service as TARGET_CLOUD_SERVICE, at any port and to any node; a may be
 * NULL. */
bool acl_opens_cloud_service(const struct acl *a, const char *ns, const char *name);
/* True if a cloud/ rule names an address or network that contains this address. Then the hub dials
 * it. */
bool acl_names_cloud(const struct acl *a, const struct in6_addr *ip);
/* True if a rule names exactly this address (not a network) and a port range that contains this
 * port. Only rules for the caller count; caller NULL: all rules. */
bool acl_names_address(
	const struct acl *a, const struct caller *caller, const struct in6_addr *ip, uint16_t port);
/* Makes the caller the holder of the bearer token with this secret. False: there is none, and the
 * caller has none now. */
bool acl_use_token(const struct acl *a, const char *secret, size_t len, struct caller *caller);
/* The same for somebody who has a token of this name. */
bool acl_use_token_name(const struct acl *a, const char *name, struct caller *caller);

#endif
