/*
 * The HTTP/2 session of a node's tunnel. With workers it lives on a worker's loop, all sessions of
 * a node on the same one; what is called here goes there as a post, and its events come back as
 * posts. Without workers it is a session of the owner's loop, and nothing is between the two.
 *
 * A stream to a node on a worker crosses: it is a stream of an HTTP/2 session between the two
 * loops, over a pair of sockets, which the worker joins with one in the node's tunnel. A pair that
 * has used up its 2^30 numbers of streams drains beside the next one. What the node answers,
 * resets and STREAM_LOST come as from the tunnel itself. One that is opened with `held`
 * (stream_request) is not joined: relay_worker_join puts the caller's socket on the worker as
 * well (hub/replicas/relay_worker.h), and then nothing crosses any more. A stream that a node
 * opens crosses the other way: `opened` gets it on the owner's loop. What the node gives up
 * before that has cost the owner nothing.
 *
 * Figures come from the workers once a second: who reads them does not wait. The owner waits for a
 * worker where it asks for the streams one by one, and to free what has not ended; a worker never
 * waits for the owner. Everything is called on the owner's loop.
 *
 *	workers = session_workers_new(loop, loops, n, SESSION_CLIENT, memory);
 *	rc = tunnel_session_new(&(struct tunnel_session_setup){.session = setup, .tls = &tls, .workers = workers,
 *		.node = "edge-1"}, &session);
 *	rc = tunnel_session_open(session, &request, &events, me, &stream);
 */
#ifndef EDGEWAY_HUB_REPLICAS_TUNNEL_SESSION_H
#define EDGEWAY_HUB_REPLICAS_TUNNEL_SESSION_H

#include "tunnel/tunnel.h"

struct session_workers;
struct tunnel_session;

/* role: SESSION_CLIENT: streams are opened here, SESSION_SERVER: by the nodes. memory: of all
 * sessions' windows beyond their base. The loops outlive the workers. */
struct session_workers *session_workers_new(struct loop *loop, struct loop *const *loops, size_t n,
	enum session_role role, size_t memory);
/* After the last session and relay_worker, and before the loops are stopped. */
void session_workers_free(struct session_workers **w);
/* Adds what the workers counted last. NULL: nothing. */
void session_workers_memory(const struct session_workers *w, struct session_budget *total);
/* How old the oldest figures of a worker are, a second unless it hangs. NULL: 0. */
uint64_t session_workers_age_ms(const struct session_workers *w);
/* Appends every stream of the workers as session_streams does. NULL: none. */
void session_workers_streams(struct session_workers *w, const char **comma, struct buf *out);

struct tunnel_session_setup {
	struct session_setup session; /* `wire` is set here, and with workers loop and budget */
	struct tls_stream **tls; /* open; taken, also on failure */
	struct liveness *liveness; /* outlives it; NULL: only pings tell whether the node lives */
	const char *peer; /* the node's name there */
	struct session_workers *workers; /* NULL: there are none */
	const char *node;
};

int tunnel_session_new(const struct tunnel_session_setup *setup, struct tunnel_session **out);
/* past: its figures are added there. */
void tunnel_session_free(struct tunnel_session **s, struct session_stats *past);
void tunnel_session_drain(struct tunnel_session *s);
void tunnel_session_send_away(struct tunnel_session *s);
void tunnel_session_ask_anew(struct tunnel_session *s);
bool tunnel_session_is_silent(const struct tunnel_session *s);
/* On a worker: as of a second ago at most, or of `ended`. */
const struct session_stats *tunnel_session_stats(const struct tunnel_session *s);
/* Now; on a worker: a second ago at most, and what was opened since. */
unsigned tunnel_session_count(const struct tunnel_session *s);
/* Of one whose loop is the owner's; session_workers_streams has the others. */
void tunnel_session_streams(
	const struct tunnel_session *s, const char *node, const char **comma, struct buf *out);
/* As session_open. On a worker, what is told here too late comes as an answer: 503 in place of
 * -EAGAIN and -EPROTONOSUPPORT, STREAM_REFUSED in place of -ESHUTDOWN and -EINPROGRESS. */
int tunnel_session_open(struct tunnel_session *s, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out);

#endif
