/*
 * The rules of `tunnel.allow`: which targets a node dials for the tunnel (closed unless a rule
 * opens it). Pure: no clock, no I/O.
 *
 *	node               the node itself, ports 10250 and 10255
 *	node:10255-10260   these ports; node:22 one; node:* all
 *	pods, services     pods of this node, known services; ports may follow as for node (none: all)
 *	agent              answers of the agent's admin port, for an operator at the hub
 *	192.168.1.0/24     the node, pods and services at addresses in this network; all ports
 *	!node:10250        deny; denials count before everything else, wherever they stand
 *
 * Whatever the rules say, some addresses are never dialled: link-local addresses, the metadata
 * addresses of cloud providers, multicast and unspecified addresses; loopback only as the node
 * itself.
 *
 *	rc = tunnel_acl_new(texts, n, &allow, &err);
 *	if (!tunnel_acl_check(allow, TUNNEL_ACL_NODE, &addr, &why))	// 403, why
 */
#ifndef EDGEWAY_TUNNEL_NODE_TUNNEL_ACL_H
#define EDGEWAY_TUNNEL_NODE_TUNNEL_ACL_H

#include "base/core/buf.h"
#include "base/core/sock.h"

struct tunnel_acl;

/* TUNNEL_ACL_BESIDE: other machines that tunnel.reach has opened (reachable_nets.h): denials apply
 * to them, too. */
enum tunnel_acl_kind {
	TUNNEL_ACL_NODE,
	TUNNEL_ACL_PODS,
	TUNNEL_ACL_SERVICES,
	TUNNEL_ACL_AGENT,
	TUNNEL_ACL_BESIDE
};

enum { TUNNEL_ACL_RULES_MAX = 256 };

/* -EINVAL names the rule that cannot be parsed. No rules: nothing is allowed. */
int tunnel_acl_new(const char *const *rules, size_t n, struct tunnel_acl **out, struct err *err);
void tunnel_acl_free(struct tunnel_acl **a);
/* kind: the kind of target, as the caller knows it. `why` is static text, set when denied. */
bool tunnel_acl_check(const struct tunnel_acl *a, enum tunnel_acl_kind kind,
	const struct addr *target, const char **why);
/* True if a rule allows `agent` and none denies it. */
bool tunnel_acl_agent(const struct tunnel_acl *a);
/* Appends the rule that decides, as text; "": no rule does. */
void tunnel_acl_explain(const struct tunnel_acl *a, enum tunnel_acl_kind kind,
	const struct addr *target, struct buf *out);
/* "node", "pod", "service", "beside": for the audit. */
const char *tunnel_acl_kind_name(enum tunnel_acl_kind kind);
/* Why this address is never dialled, whatever the rules say (static text; loopback is not covered
 * here); NULL: it may be. */
const char *tunnel_acl_never(const struct addr *target);

#endif
