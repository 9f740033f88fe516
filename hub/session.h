/*
 * One connected node (doc/protocol.md, "Metadata"): says hello, compares digests, sends what differs and
 * then what changes, and takes the acknowledgements. Created when the websocket opened, freed when it
 * closed; on the hub's loop.
 *
 *   hello sent ─ digest/buckets ─► [source read?] ─► live: every change is sent
 *                                  digest/services ─► differences queued ─ all sent ─► {"synced":true}
 *
 * What waits is a number for each service, never a message: at most SESSION_WINDOW messages are under way, one
 * for each service, and a service that changes meanwhile is sent once more, as it is then. So a
 * slow node costs a few bytes a service, and the newest state always wins. Nothing is lost: what was not
 * acknowledged when the connection ends differs in the next comparison of digests.
 */
#ifndef EDGEWAY_HUB_SESSION_H
#define EDGEWAY_HUB_SESSION_H

#include "base/ws.h"
#include "hub/fanout.h"

enum {
	SESSION_WINDOW = 256,
	SESSION_ACK_MS = 60000, /* a message unacknowledged for so long ends the connection */
	SESSION_STALE_MAX = 100000, /* services that a node claims to hold and that do not exist */
	SESSION_QUEUE_BYTES = 1 << 20, /* high water of the websocket */
};

/* Counters of all sessions, kept by the hub. */
struct session_stats {
	uint64_t updates, deletes, acks, refused, syncs, bad_messages, replaced, stalled;
};

struct session_config {
	struct fanout *fanout;
	struct session_stats *stats;
	const char *ca_hash; /* sha256 of the hub's CAs as PEM text */
	const char *agent; /* version that the node tells, copied */
	const char *node, *site, *zone, *cluster_domain; /* copied */
	bool ready; /* the source has been read */
};

struct session;

/* Sends hello. Sets nothing on the connection: the owner routes events here. */
struct session *session_new(const struct session_config *config, struct ws_conn *conn);
/* After the connection's `closed`, or for a connection that the owner has forgotten. */
void session_free(struct session **s);

/* The source has been read: answers what waited for it. */
void session_ready(struct session *s);
void session_text(struct session *s, const char *text, size_t len);
void session_drained(struct session *s);
/* From time to time: ends a connection whose node stopped acknowledging. */
void session_tick(struct session *s, uint64_t now_ms);
/* Ends the connection, with a reason for the node's log; `closed` follows. Nothing is sent after it. */
void session_end(struct session *s, unsigned code, const char *why);

const char *session_node(const struct session *s);
/* Are these the site and zone that its hello told? */
bool session_lives_in(const struct session *s, const char *site, const char *zone);
bool session_ended(const struct session *s);
/* The members of an object without its braces: node, address, since, synced, waiting, unacked, ... */
void session_state(const struct session *s, struct buf *out);

#endif
