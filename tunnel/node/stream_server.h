/*
 * The agent's side of streams that the hub opens: what each asks for (tunnel/node/dial_target),
 * whether it may (tunnel/node/tunnel_acl), the dial, and then the bytes (tunnel/h2/relay). Answers:
 * 200 once the target has accepted; 400 not host:port; 403 denied, and no packet has left; 404 not
 * on this node; 502 refused or unreachable; 504 silent for STREAM_SERVER_DIAL_MS; 508 it goes round
 * (base/core/hops.h). One line in the log for each stream: who asked (`edgeway-caller`), for what,
 * bytes, and how it ended. Streams of datagrams are judged in the same way and answered at once,
 * since UDP has no dial (tunnel/node/stream_server_udp). Machines beside this node are dialled as
 * tunnel.reach says (tunnel/node/reachable_nets), which the hub is told when it asks
 * (tunnel/node/reachability). A stream of TCP with a `traceparent` that says so has a span of its
 * own. Everything on the loop's thread.
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

enum { STREAM_SERVER_DIAL_MS = 5000 };

struct stream_server_config { /* copied */
	struct loop *loop;
	const char *node;
	const char *const *bridges; /* names and globs of the pods' bridges, ended by NULL */
	const char *const *allow; /* rules, ended by NULL */
	struct addresses *addresses; /* of this machine; outlives it */
	uint32_t mark; /* SO_MARK */
	/* what the hub asks of the agent, where tunnel.allow names `agent`; NULL: nothing */
	agent_answer_fn *answer;
	void *arg; /* of it */
	struct span_source
		*spans; /* of streams with a traceparent; outlives it; NULL: none are made */
};

int stream_server_new(
	const struct stream_server_config *config, struct stream_server **out, struct err *err);
/* Resets what is open. */
void stream_server_free(struct stream_server **s);
/* Flows of UDP end once they have been quiet for a moment; connections end by themselves. */
void stream_server_drain(struct stream_server *s);
/* Spans of what goes on are handed over as they are. */
void stream_server_end_spans(struct stream_server *s);
void stream_server_use(struct stream_server *s, const struct snapshot *snapshot);
/* What is beside this node, from now on; taken. Is it another than before? Then the hub is to ask
 * (tunnel_client_ask_anew). */
bool stream_server_declare(struct stream_server *s, struct reachable_nets **vicinity);
/* As `to_be_asked` of link_config: is anything declared? */
bool stream_server_to_be_asked(void *serve);
unsigned stream_server_opened(
	void *serve, struct stream *st, const struct stream_request *request, const char **reason);
/* What would become of a stream to host:port, up to the dial: an object with allowed, target and
 * the rule or the reason. */
void stream_server_judge(struct stream_server *s, const char *authority, struct buf *out);
void stream_server_metrics(const struct stream_server *s, struct metrics *m);
/* Members of an object, without its braces. */
void stream_server_state(const struct stream_server *s, struct buf *out);

#endif
