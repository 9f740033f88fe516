/*
 * Which targets a tunnel's end dials: the rules of `tunnel.allow` (DESIGN: closed unless named).
 * Pure: no clock, no I/O.
 *
 *	node               the node itself, ports 10250 and 10255
 *	node:10255-10260   these ports; node:22 one; node:* all
 *	pods, services     pods of this node, known services; ports may follow as for node (none: all)
 *	agent              what the agent's admin port tells, for an operator at the hub
 *	192.168.1.0/24     what of the node, its pods and services has an address in this network; all ports
 *	!node:10250        deny; denials count before everything else, wherever they stand
 *
 * Whatever the rules say, some addresses are never dialled: link-local ones, those at which clouds
 * serve their metadata, multicast and unspecified ones; loopback only as the node itself.
 *
 *	rc = allow_new(texts, n, &allow, &err);
 *	if (!allow_check(allow, ALLOW_NODE, &addr, &why))	// 403, why
 */
#ifndef EDGEWAY_TUNNEL_NODE_ALLOW_H
#define EDGEWAY_TUNNEL_NODE_ALLOW_H

#include "base/core/buf.h"
#include "base/core/sock.h"

struct allow;

/* ALLOW_BESIDE: machines beside this one, which tunnel.reach has opened (vicinity.h): denials count
 * for them, too. */
enum allow_kind { ALLOW_NODE, ALLOW_PODS, ALLOW_SERVICES, ALLOW_AGENT, ALLOW_BESIDE };

enum { ALLOW_RULES_MAX = 256 };

/* -EINVAL names the rule that cannot be read. No rules: nothing is allowed. */
int allow_new(const char *const *rules, size_t n, struct allow **out, struct err *err);
void allow_free(struct allow **a);
/* kind: what the caller knows the target to be. `why` is static text, set when denied. */
bool allow_check(
	const struct allow *a, enum allow_kind kind, const struct addr *target, const char **why);
/* Is `agent` named, and not denied? */
bool allow_agent(const struct allow *a);
/* Which rule decides, in words; "": none does. */
void allow_explain(
	const struct allow *a, enum allow_kind kind, const struct addr *target, struct buf *out);
/* "node", "pod", "service", "beside": for the audit. */
const char *allow_kind_name(enum allow_kind kind);
/* Why nobody may ever be led to the address, whatever the rules say (static text; loopback is not
 * meant); NULL: it may be. */
const char *allow_never(const struct addr *target);

#endif
