/*
 * Who may reach what through the hub: the rules of `access` (doc/edgeway-hub.8). Closed unless a rule opens; with no rules at all
 * callers of this very machine, and those whom a listener's own clientCA has admitted, may reach everything. Pure.
 *
 *	from   192.0.2.0/24        a source address or network
 *	       cert:NAME           the common name of a client certificate that the listener's clientCA has signed
 *	       token:NAME          a bearer token, given by its tokenSHA256
 *	       NAME                either of the two
 *	       node:NAME           a node that asks for endpoints of services; globs allowed. Without such rules every node may have those
 *	                           of all services
 *	       local               whoever is on this machine: by loopback, by an address of its own (not UDP by IPv6), by a Unix socket
 *	to     *                   everything
 *	       NODE[:PORTS]        a node, globs allowed: edge-1:10250, edge-*:9100-9105, *:10250
 *	       NAMESPACE/SERVICE[:PORTS], pod/NAMESPACE/POD[:PORTS]
 *	       cloud/HOST[:PORTS], cloud/CIDR[:PORTS]   dialled by the hub itself
 *	       hub:web             the page of the hub itself (hub/web.h); no other word opens it, not even *. Where no rule names it, callers
 *	                           of this machine, and those whom its clientCA has admitted, may see it
 *	       site/SITE/CIDR[:PORTS]  an address that a node of the site declares and no object of the cluster has; globs allowed
 *
 *	rc = access_new(rules, &access, &err);
 *	if (!access_check(access, &caller, &target))	// 403
 */
#ifndef EDGEWAY_HUB_ACCESS_H
#define EDGEWAY_HUB_ACCESS_H

#include "base/opt.h"
#include "base/sock.h"
#include "base/tree.h"

enum { ACCESS_RULES_MAX = 1024, ACCESS_NAME_MAX = 253 };

struct caller {
	struct addr addr; /* of the connection's other end; AF_UNIX: of this machine */
	char cert[ACCESS_NAME_MAX + 1]; /* "" none */
	char token[ACCESS_NAME_MAX + 1]; /* "" none */
	char node[ACCESS_NAME_MAX + 1]; /* a node, by its certificate of our own CA; "" none */
	bool local; /* comes from the very address that it was accepted at, and nobody else can have said so */
	unsigned hops; /* how often we have passed the connection on before (base/hops.h) */
	bool admitted; /* the listener's clientCA has signed the certificate */
};

enum target_kind { TARGET_NODE, TARGET_POD, TARGET_SERVICE, TARGET_CLOUD, TARGET_SITE, TARGET_WEB };

struct access_target {
	enum target_kind kind;
	const char *node; /* TARGET_NODE */
	const char *ns, *name; /* of the pod or the service; name: of the site */
	const char *host; /* TARGET_CLOUD, TARGET_SITE */
	uint16_t port;
};

struct access;

/* rules: the list of the configuration, or NULL. -EINVAL: err names the line. */
int access_new(const struct tree_node *rules, struct access **out, struct err *err);
void access_free(struct access **a);
/* From now on `a` has the rules of `fresh`, which is taken. */
void access_adopt(struct access *a, struct access **fresh);
size_t access_count(const struct access *a);
bool access_check(
	const struct access *a, const struct caller *caller, const struct access_target *target);
/* Does a rule name this kind of target by itself, and not by *? */
bool access_names(const struct access *a, enum target_kind kind);
/* Does a rule name a network or address of the cloud that holds this one? Then the hub dials it. */
bool access_names_cloud(const struct access *a, const struct in6_addr *ip);
/* The name of the bearer token with this secret; NULL: none. */
const char *access_token(const struct access *a, const char *secret, size_t len);
/* The same without the port: one text for all connections of a caller. */
const char *caller_name(const struct caller *c, char to[ACCESS_NAME_MAX + 8]);
/* "node:NAME", "cert:NAME", "token:NAME" or the address, for the audit; returns `to`. */
const char *caller_text(const struct caller *c, char to[ACCESS_NAME_MAX + 8]);

#endif
