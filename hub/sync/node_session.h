/*
 * The metadata session of one connected node (doc/protocol.md, "Metadata"): sends hello, compares
 * digests, sends the differences and then every change, and handles the acknowledgements. Created
 * when the websocket has opened, freed when it has closed; on the hub's loop.
 *
 *   hello sent ─ digest/buckets ─► [source read?] ─► live: every change is sent
 *                                  digest/services ─► differences queued
 *                                                      └─ all sent ─► {"synced":true}
 *
 * The queue holds a number for each service, never a message. It is sent once the fanout reports
 * that all changes of this moment are known, so that they share a bundle. At most INFLIGHT_MOST
 * messages are unacknowledged, one for each service; a service that changes meanwhile is sent once
 * more, as it is then. So a slow node costs a few bytes per service, and the newest state always
 * wins. Nothing is lost: what was unacknowledged when the connection ended differs in the next
 * comparison of digests.
 */
#ifndef EDGEWAY_HUB_SYNC_NODE_SESSION_H
#define EDGEWAY_HUB_SYNC_NODE_SESSION_H

#include "base/http/ws.h"
#include "hub/port/questions.h"
#include "hub/sync/fanout.h"
#include "hub/sync/outbox.h"
#include "hub/sync/sync_gate.h"

enum {
	NODE_SESSION_ASK_MS = 2000, /* a message unacknowledged for so long: is the node there? */
	NODE_SESSION_ACK_MS = 60000, /* a message unacknowledged for so long ends the connection */
	NODE_SESSION_STALE_MAX =
		100000, /* services that a node reports to hold, but that do not exist */
	NODE_SESSION_QUEUE_BYTES = 128 * 1024, /* high water of the websocket */
};

enum unserved_why { UNSERVED_ADDRESS, UNSERVED_REFUSED, UNSERVED_PORTS, UNSERVED_WHYS };

/* Counters of all sessions, kept by the hub. */
struct node_session_stats {
	uint64_t updates, deletes, merged, refused, bad_messages, stalled;
};

struct node_session_config {
	struct fanout *fanout;
	struct node_session_stats *stats;
	struct sync_gate *gate; /* outlives the session; NULL: none */
	const char *ca_hash; /* sha256 of the hub's CAs as PEM text */
	const char *const *addresses; /* addresses of this hub for nodes, sent in hello: borrowed */
	size_t n_addresses;
	const char *agent; /* the node's version, copied */
	const char *node, *site, *zone, *cluster_domain; /* copied */
	const struct kube_labels *labels; /* of the node, copied; NULL: none known */
	bool ready; /* the source has been read */
	bool bundles; /* the node accepts bundles (model/bundle.h) */
	const char
		*crl; /* revoked certificates of hubs, sent in hello: borrowed; "" or NULL: none */
	const char *revoked; /* nodes_revoked_write, sent in hello: borrowed; NULL: none */
	bool takes_crl; /* the node accepts them later, too */
	bool answers; /* the node answers questions (model/health.h) */
	bool no_tunnel; /* its tunnel is switched off */
	bool enforces; /* the node enforces who may connect to a service (model/allow_from.h) */
	struct cluster *cluster; /* where pods are asked for by their address */
	loop_fn *settle; /* the cluster may have changes now: pass them to the fanout; NULL: no */
	void *settle_arg;
	bool routes; /* the node follows routes (model/http_route.h) */
};

struct node_session;

/* Sends hello. Sets no callbacks on the connection: the owner passes its events on. */
struct node_session *node_session_new(
	const struct node_session_config *config, struct ws_conn *conn);
/* Call after the connection's `closed`, or for a connection that the owner has forgotten. */
void node_session_free(struct node_session **s);

/* The source has been read: answers the queries that waited for it. */
void node_session_ready(struct node_session *s);
void node_session_text(struct node_session *s, const char *text, size_t len);
void node_session_drained(struct node_session *s);
/* Call from time to time: ends a connection whose node has stopped acknowledging. */
void node_session_tick(struct node_session *s, uint64_t now_ms);
/* The list of revoked hub certificates has changed; PEM, "": none. */
void node_session_say_crl(struct node_session *s, const char *crl, const char *revoked);
/* Ends the connection, with a reason for the node's log; `closed` follows. Nothing is sent after
 * it. */
void node_session_end(struct node_session *s, unsigned code, const char *why);

/* Asks the node about the state of this service's endpoints, "namespace/name". 0: q gets the answer
 * later. -ENOTCONN; -EOPNOTSUPP: its agent is too old; -EBUSY: too many questions wait. */
int node_session_ask(struct node_session *s, const char *service, struct question *q);
const char *node_session_node(const struct node_session *s);
/* Returns true if these are the site and zone in its hello. */
bool node_session_lives_in(const struct node_session *s, const char *site, const char *zone);
/* The node's labels have changed: sends it the services that they add, and deletions for those that
 * they remove. */
void node_session_relabel(struct node_session *s, const struct kube_labels *labels);
/* Services ("namespace/name") for which the node reports that it has no fake IP left, or that it
 * refuses an endpoint because of its address; returns how many. */
size_t node_session_unserved(
	const struct node_session *s, enum unserved_why why, const char *const **keys);
/* Sends the list of the node's clients (cluster_callers) if it has changed since the last time;
 * sends nothing to an agent that does not enforce it. */
void node_session_callers(struct node_session *s, struct buf *callers);
/* Tells the node the ranges of pods' addresses (cluster_pod_ranges) if they have changed. */
void node_session_ranges(struct node_session *s);
bool node_session_enforces(const struct node_session *s);
/* Services that the node does not accept as they are (hub/port/refusals.h); borrowed. */
struct refusals;
const struct refusals *node_session_refusals(const struct node_session *s);
bool node_session_ended(const struct node_session *s);
/* Data of the session for displays: texts are valid until the loop's next turn. */
struct node_session_facts {
	const char *node, *site, *zone, *version, *address;
	uint64_t since_ms; /* since 1970 */
	bool synced, no_tunnel;
	unsigned pending, unacked;
	size_t queued_bytes; /* frames that its socket has not taken yet */
	size_t unserved, held;
};
void node_session_facts(const struct node_session *s, struct node_session_facts *to);
/* The state of a service at the node. */
enum node_session_share {
	NODE_SESSION_NOT_FOR_IT, /* edgeway.io/nodes excludes the node */
	NODE_SESSION_UNDER_WAY, /* to be sent, or to be acknowledged */
	NODE_SESSION_REFUSED, /* the node does not accept it as it is */
	NODE_SESSION_UNSERVED, /* the node has no fake IP for it */
	NODE_SESSION_HAS, /* the node has it as it is now */
};
enum node_session_share node_session_share(
	const struct node_session *s, const struct fanout_item *item);
/* The members of an object without its braces: node, address, since, synced, waiting, unacked,
 * ... */
void node_session_state(const struct node_session *s, struct buf *out);

#endif
