/*
 * The agent's side of the streams that the hub, or another node's agent, opens: resolves the target
 * (tunnel/node/dial_target), checks the rules (tunnel/node/tunnel_acl), dials, and then relays the
 * bytes (tunnel/h2/relay). Answers: 200 once the target has accepted; 400 not host:port; 403
 * denied, and no packet was sent; 404 not on this node; 502 refused or unreachable; 504 no answer
 * for STREAM_SERVER_DIAL_MS; 508 a loop (base/core/hops.h). Each stream has one line in the log:
 * who asked (`edgeway-caller`), for what, bytes, and how it ended. Datagram streams are checked in
 * the same way and answered at once, since UDP has no dial (tunnel/node/stream_server_udp). Other
 * machines are dialled if tunnel.reach names them (tunnel/node/reachable_nets); the hub learns of
 * them by a query (tunnel/node/reachability). A TCP stream with a sampled `traceparent` has a span
 * of its own. Everything on the loop's thread.
 *
 *	stream_server_new(&(struct stream_server_config){.loop = loop, .node = "edge-1", .allow = rules}, &serve, &err);
 *	tunnel_client_new(&(struct tunnel_client_config){.opened = stream_server_opened, .arg = serve, ...});
 */
#ifndef EDGEWAY_TUNNEL_NODE_STREAM_SERVER_H
#define EDGEWAY_TUNNEL_NODE_STREAM_SERVER_H

#include "base/core/metric.h"
#include "base/os/addresses.h"
#include "model/snapshot.h"
#include "model/span.h"
#include "tunnel/h2/session.h"
#include "tunnel/node/agent_query.h"
#include "tunnel/node/reachable_nets.h"

struct stream_server;

enum {
	STREAM_SERVER_DIAL_MS = 5000,
	STREAM_SERVER_POD_MS = 1500, /* a call waits so long for the hub to tell of its pod */
	/* of the log, a minute, of what other nodes ask for: of connections, and of flows */
	STREAM_SERVER_PEER_LINES = 600,
};

struct stream_server_config { /* copied */
	struct loop *loop;
	const char *node;
	const char *const *bridges; /* names and globs of the pod bridges, NULL-terminated */
	const char *const *allow; /* rules, NULL-terminated */
	struct addresses *addresses; /* of this machine; outlives it */
	uint32_t mark; /* SO_MARK */
	/* answers the hub's queries to the agent, where tunnel.allow names `agent`; NULL: none */
	agent_answer_fn *answer;
	/* The hub invites this node to meet another one (tunnel/node/hole_punch); as `opened` of
	 * session_events. NULL: it meets none. */
	unsigned (*invited)(void *arg, struct stream *st, const char *node, const char *id,
		const char **reason);
	void *arg; /* for both */
	struct span_source
		*spans; /* for streams with a traceparent; outlives the server; NULL: no spans */
};

int stream_server_new(
	const struct stream_server_config *config, struct stream_server **out, struct err *err);
/* Resets what is open. */
void stream_server_free(struct stream_server **s);
/* UDP flows end once they are idle for a moment; TCP connections end by themselves. */
void stream_server_drain(struct stream_server *s);
/* Exports the spans of open streams as they are. */
void stream_server_end_spans(struct stream_server *s);
void stream_server_use(struct stream_server *s, const struct snapshot *snapshot);
/* Sets the reachable networks; takes `vicinity`. Returns true if they differ from the previous
 * ones; then have the hub query them (tunnel_client_ask_anew). */
bool stream_server_declare(struct stream_server *s, struct reachable_nets **vicinity);
/* As `to_be_asked` of tunnel_client_config: true if anything is announced. */
bool stream_server_to_be_asked(void *serve);
unsigned stream_server_opened(
	void *serve, struct stream *st, const struct stream_request *request, const char **reason);
/* A stream of another node's agent (tunnel/node/node_door): only for an endpoint of a Service that
 * both know. */
unsigned stream_server_peer_opened(struct stream_server *s, const char *node, struct stream *st,
	const struct stream_request *request, const char **reason);
/* What would happen to a stream to host:port, up to the dial: a JSON object with allowed, target
 * and the rule or the reason. */
void stream_server_judge(struct stream_server *s, const char *authority, struct buf *out);
void stream_server_metrics(const struct stream_server *s, struct metrics *m);
/* Members of an object, without its braces. */
void stream_server_state(const struct stream_server *s, struct buf *out);

#endif
