/*
 * The agent's side of streams that the hub opens: what each asks for (tunnel/node/target), whether
 * it may (tunnel/node/allow), the dial, and then the bytes (tunnel/h2/relay). Answers: 200 once the
 * target has accepted; 400 not host:port; 403 denied, and no packet has left; 404 not on this node;
 * 502 refused or unreachable; 504 silent for SERVE_DIAL_MS; 508 it goes round (base/core/hops.h).
 * One line in the log for each stream: who asked (`edgeway-caller`), for what, bytes, and how it
 * ended. Streams of datagrams are judged in the same way and answered at once, since UDP has no
 * dial (tunnel/node/serve_udp). Machines beside this node are dialled as tunnel.reach says
 * (tunnel/node/vicinity), which the hub is told when it asks (tunnel/node/declaration). A stream of
 * TCP with a `traceparent` that says so has a span of its own. Everything on the loop's thread.
 *
 *	serve_new(&(struct serve_config){.loop = loop, .node = "edge-1", .allow = rules}, &serve, &err);
 *	link_new(&(struct link_config){.opened = serve_opened, .arg = serve, ...});
 */
#ifndef EDGEWAY_TUNNEL_NODE_SERVE_H
#define EDGEWAY_TUNNEL_NODE_SERVE_H

#include "base/core/metric.h"
#include "base/os/addresses.h"
#include "model/snapshot.h"
#include "model/span.h"
#include "tunnel/h2/session.h"
#include "tunnel/node/agent_query.h"
#include "tunnel/node/vicinity.h"

struct serve;

enum { SERVE_DIAL_MS = 5000 };

struct serve_config { /* copied */
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

int serve_new(const struct serve_config *config, struct serve **out, struct err *err);
/* Resets what is open. */
void serve_free(struct serve **s);
/* Flows of UDP end once they have been quiet for a moment; connections end by themselves. */
void serve_drain(struct serve *s);
/* Spans of what goes on are handed over as they are. */
void serve_end_spans(struct serve *s);
void serve_use(struct serve *s, const struct snapshot *snapshot);
/* What is beside this node, from now on; taken. Is it another than before? Then the hub is to ask
 * (link_ask_anew). */
bool serve_declare(struct serve *s, struct vicinity **vicinity);
/* As `to_be_asked` of link_config: is anything declared? */
bool serve_to_be_asked(void *serve);
unsigned serve_opened(
	void *serve, struct stream *st, const struct stream_request *request, const char **reason);
/* What would become of a stream to host:port, up to the dial: an object with allowed, target and
 * the rule or the reason. */
void serve_judge(struct serve *s, const char *authority, struct buf *out);
void serve_metrics(const struct serve *s, struct metrics *m);
/* Members of an object, without its braces. */
void serve_state(const struct serve *s, struct buf *out);

#endif
