/*
 * The right to use a stream through the hub. Everything that joins a caller with a target asks here
 * and nowhere else: connections of the ingress (hub/ingress/client_conn.h), flows of UDP maps
 * (udp_flow.c), streams of nodes (egress.c) and of other replicas (hub/replicas/peer_forward.c).
 *
 *	who may      the connector asks the rules before it dials (hub/routing/routes_judge.c);
 *	             grant_open asks them again when the target has answered, and grant_revoked when
 *	             they have changed
 *	how many     grant_take takes a place of the caller, grant_open or grant_node one of the node
 *	             that carries the stream
 *	how fast     grant_room, grant_spend; grant_rate for a relay
 *	audit        grant_audit, one line when it ends
 *
 * For a stream of another replica, that replica has done all this for the caller; here it counts
 * towards the node's limits alone, because each replica keeps its own accounts. On the hub's loop.
 *
 *	request.full = grant_take(&grant, grants, &caller);
 *	status = grant_open(&grant, &caller, answer->where, answer->via, &reason);
 *	grant_end(&grant);
 */
#ifndef EDGEWAY_HUB_PORT_GRANT_H
#define EDGEWAY_HUB_PORT_GRANT_H

#include "base/core/log.h"
#include "base/core/loop.h"
#include "hub/port/acl.h"
#include "hub/port/quota.h"

struct dgram_tally;

/* What they all ask. Outlives every grant. */
struct grants {
	struct loop *loop;
	struct acl *access;
	struct quota *quota; /* NULL: no limits */
};

struct grant { /* all zero: nothing is granted */
	const struct grants *of;
	struct account *accounts[QUOTA_KINDS]; /* NULL: none */
	bool open; /* the rules have opened `where`, whose texts follow */
	struct acl_target where;
	char *where_text; /* both in one block */
};

extern const char grant_rules_changed[];

/* For a new request of the caller; ends what was granted before. NULL, or why there is no place for
 * it (429). */
const char *grant_take(struct grant *g, const struct grants *of, const struct caller *caller);
/* The same for the node that carries the stream, beside the caller's place; "": none. */
const char *grant_node(struct grant *g, const struct grants *of, const char *node);
/* For a target that has answered; after grant_take. via: the node that carries the stream, or "".
 * 200, or 403 or 429 with the reason. */
unsigned grant_open(struct grant *g, const struct caller *caller, const struct acl_target *where,
	const char *via, const char **reason);
/* True, once, if the target is open and the present rules would not open it. The accounts are kept
 * until grant_end, because a relay uses their rates until it has ended. */
bool grant_revoked(struct grant *g, const struct caller *caller);
/* NULL: none. Valid until grant_end. */
struct rate *grant_rate(const struct grant *g, enum quota_kind kind);
/* How many bytes may pass now. */
size_t grant_room(const struct grant *g);
void grant_spend(const struct grant *g, size_t n);
void grant_end(struct grant *g);

struct audit {
	const char *door;
	const char *listen, *peer; /* NULL: does not say */
	const char *caller; /* caller_text; with `peer`, what that replica says */
	const char *target; /* NULL: none was asked for */
	unsigned status;
	uint64_t sent, received; /* bytes; not used if there are datagrams */
	const struct dgram_tally *datagrams; /* NULL: a stream of bytes */
	uint64_t since_ms;
	const char *end;
	/* of a line that anybody can cause without being admitted; NULL: always written */
	struct log_limit *limit;
};

void grant_audit(const struct grants *of, const struct audit *a);

#endif
