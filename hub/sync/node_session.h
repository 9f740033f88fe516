/*
 * One connected node (doc/protocol.md, "Metadata"): says hello, compares digests, sends what
 * differs and then what changes, and takes the acknowledgements. Created when the websocket opened,
 * freed when it closed; on the hub's loop.
 *
 *   hello sent ─ digest/buckets ─► [source read?] ─► live: every change is sent
 *                                  digest/services ─► differences queued ─ all sent ─► {"synced":true}
 *
 * What waits is a number for each service, never a message; it is sent once the fanout says that
 * the changes of this moment are all told, so that they share a bundle. At most INFLIGHT_MOST
 * messages are under way, one for each service, and a service that changes meanwhile is sent once
 * more, as it is then. So a slow node costs a few bytes a service, and the newest state always
 * wins. Nothing is lost: what was not acknowledged when the connection ends differs in the next
 * comparison of digests.
 */
#ifndef EDGEWAY_HUB_SYNC_NODE_SESSION_H
#define EDGEWAY_HUB_SYNC_NODE_SESSION_H

#include "base/http/ws.h"
#include "hub/port/questions.h"
#include "hub/sync/fanout.h"
#include "hub/sync/outbox.h"

enum {
	NODE_SESSION_ACK_MS = 60000, /* a message unacknowledged for so long ends the connection */
	NODE_SESSION_STALE_MAX =
		100000, /* services that a node claims to hold and that do not exist */
	NODE_SESSION_QUEUE_BYTES = 128 * 1024, /* high water of the websocket */
};

enum unserved_why { UNSERVED_ADDRESS, UNSERVED_REFUSED, UNSERVED_WHYS };

/* Counters of all talks, kept by the hub. */
struct node_session_stats {
	uint64_t updates, deletes, acks, refused, syncs, bad_messages, replaced, stalled;
	struct outbox_stats outbox;
};

struct node_session_config {
	struct fanout *fanout;
	struct node_session_stats *stats;
	const char *ca_hash; /* sha256 of the hub's CAs as PEM text */
	const char *const *addresses; /* where nodes reach this hub, said in hello: borrowed */
	size_t n_addresses;
	const char *agent; /* version that the node tells, copied */
	const char *node, *site, *zone, *cluster_domain; /* copied */
	const struct kube_labels *labels; /* of the node, copied; NULL: none known */
	bool ready; /* the source has been read */
	bool bundles; /* the node takes them (model/bundle.h) */
	const char
		*crl; /* revoked certificates of hubs, said in hello: borrowed; "" or NULL: none */
	bool takes_crl; /* also later */
	bool answers; /* and questions (model/health.h) */
	bool no_tunnel; /* its tunnel is switched off */
	bool enforces; /* and keeps out who may not call a service (model/allow_from.h) */
};

struct node_session;

/* Sends hello. Sets nothing on the connection: the owner routes events here. */
struct node_session *node_session_new(
	const struct node_session_config *config, struct ws_conn *conn);
/* After the connection's `closed`, or for a connection that the owner has forgotten. */
void node_session_free(struct node_session **s);

/* The source has been read: answers what waited for it. */
void node_session_ready(struct node_session *s);
void node_session_text(struct node_session *s, const char *text, size_t len);
void node_session_drained(struct node_session *s);
/* From time to time: ends a connection whose node stopped acknowledging. */
void node_session_tick(struct node_session *s, uint64_t now_ms);
/* Other certificates of hubs are revoked; PEM, "" none. */
void node_session_say_crl(struct node_session *s, const char *crl);
/* Ends the connection, with a reason for the node's log; `closed` follows. Nothing is sent after
 * it. */
void node_session_end(struct node_session *s, unsigned code, const char *why);

/* What does the node make of the endpoints of this service, "namespace/name"? 0: q is told, later.
 * -ENOTCONN; -EOPNOTSUPP: its agent is older; -EBUSY: too many questions wait. */
int node_session_ask(struct node_session *s, const char *service, struct question *q);
const char *node_session_node(const struct node_session *s);
/* Are these the site and zone that its hello told? */
bool node_session_lives_in(const struct node_session *s, const char *site, const char *zone);
/* The labels of the node are these now: it is told of what they add, and that the rest is gone. */
void node_session_relabel(struct node_session *s, const struct kube_labels *labels);
/* Services ("namespace/name") of which the node says that no fake IP is left there for them, or
 * that it refuses an endpoint because of its address; how many. */
size_t node_session_unserved(
	const struct node_session *s, enum unserved_why why, const char *const **keys);
/* The callers of the node (cluster_callers), unless they are those that it was told last; nothing
 * for an agent that does not enforce. */
void node_session_callers(struct node_session *s, struct buf *callers);
bool node_session_enforces(const struct node_session *s);
/* Services that the node does not take as they are (hub/port/refusals.h); borrowed. */
struct refusals;
const struct refusals *node_session_refusals(const struct node_session *s);
bool node_session_ended(const struct node_session *s);
/* What it is about, for those who look on: texts are good until the loop's next turn. */
struct node_session_facts {
	const char *node, *site, *zone, *version, *address;
	uint64_t since_ms; /* since 1970 */
	bool synced, no_tunnel;
	unsigned pending, unacked;
	size_t unserved, held;
};
void node_session_facts(const struct node_session *s, struct node_session_facts *to);
/* What the node has of a service. */
enum node_session_share {
	NODE_SESSION_NOT_FOR_IT, /* edgeway.io/nodes keeps it from the node */
	NODE_SESSION_UNDER_WAY, /* it is to be sent, or to be acknowledged */
	NODE_SESSION_REFUSED, /* the node does not take it as it is */
	NODE_SESSION_UNSERVED, /* the node has no fake IP for it */
	NODE_SESSION_HAS, /* as it is now */
};
enum node_session_share node_session_share(
	const struct node_session *s, const struct fanout_item *item);
/* The members of an object without its braces: node, address, since, synced, waiting, unacked,
 * ... */
void node_session_state(const struct node_session *s, struct buf *out);

#endif
