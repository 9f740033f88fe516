/*
 * An operator's request to a node's agent, through the hub (edgewayctl --node): it comes over the
 * hub's Unix socket and goes through the node's tunnel, here or at another replica, as a stream of
 * its own (tunnel/node/agent_query.h); the response is copied to the socket as it comes, in chunks,
 * so that one that breaks off is not taken for a whole one. The node's tunnel.allow decides whether
 * it answers, and it returns only what its admin port would. On the hub's loop.
 */
#include "hub/hub_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/http/admin.h"
#include "base/http/http1.h"
#include "hub/port/route.h"
#include "tunnel/tunnel.h"

/* HUB_ASK_MS is shorter than edgewayctl's timeout (src/ctl/ctl_ask.c), so that the operator learns
 * the reason. Once the answer has begun, nothing but its end is left to tell: edgewayctl is the
 * first to give up, and an answer ends that brings nothing for HUB_ASK_SILENT_MS. */
enum { HUB_ASK_MS = 8 * 1000, HUB_ASK_SILENT_MS = 12 * 1000, HUB_ASKS_MOST = 16 };

struct hub_ask {
	LIST_ENTRY(hub_ask) link;
	struct hub *hub;
	char *node;
	struct stream *stream;
	struct watch *watch; /* of the socket, once the answer has begun */
	struct buf out; /* of the answer: at most a chunk */
	bool whole; /* the last chunk is in `out`, or sent */
	struct timer *deadline;
	uint64_t ends_ms; /* of the answer, at the latest: agents take no longer */
	uint64_t passed, looked; /* bytes of the body: now, and when `deadline` last looked */
	int fd; /* the operator's socket */
};

static void
ask_free(struct hub_ask *a)
{
	LIST_REMOVE(a, link);
	a->hub->n_asks--;
	watch_stop(&a->watch);
	stream_close(&a->stream, STREAM_CANCELLED);
	timer_free(&a->deadline);
	buf_fini(&a->out);
	cleanup_fd(&a->fd);
	free(a->node);
	free(a);
}

static void ask_answer(int fd, int status, const char *fmt, ...) printf_like(3, 4);

static void
ask_answer(int fd, int status, const char *fmt, ...)
{
	struct admin_reply reply = {.status = status};
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	buf_init(&reply.body, BUF_UNLIMITED);
	buf_printf(&reply.body, "%s\n", text);
	admin_answer(fd, &reply);
	buf_fini(&reply.body);
}

static void
ask_refuse(struct hub_ask *a, int status, const char *why)
{
	ask_answer(take_fd(&a->fd), status, "node %.100s: %.300s", a->node, why);
	ask_free(a);
}

/* An older agent, which does not know such requests, answers 404. */
static const char *
ask_reason(unsigned status, const char *reason)
{
	if (status == 404 && strcmp(reason, "this agent does not know the question") == 0)
		return "its agent is older and cannot be asked through the hub: upgrade it, or run "
		       "edgewayctl on the node";
	return *reason != '\0' ? reason : "its agent refuses, and does not say why";
}

/* Moves a piece of the answer to the socket. Without the last chunk its end is a break. */
static void
ask_pass(struct hub_ask *a)
{
	char head[HTTP1_CHUNK_HEAD];
	const void *data;
	ssize_t sent;
	size_t n;

	if (buf_len(&a->out) == 0 && (n = stream_peek(a->stream, &data)) > 0) {
		buf_add(&a->out, head, http1_chunk_head(head, n));
		buf_add(&a->out, data, n);
		buf_adds(&a->out, HTTP1_CHUNK_TAIL);
		stream_consume(a->stream, n);
		a->passed += n;
	}
	if (!a->whole && stream_eof(a->stream)) {
		buf_adds(&a->out, HTTP1_CHUNK_LAST);
		a->whole = true;
	}
	sent = buf_len(&a->out) > 0 ? buf_write(&a->out, a->fd) : 0;
	if ((sent < 0 && sent != -EAGAIN) || (a->whole && buf_len(&a->out) == 0) ||
		stream_spoilt(a->stream)) {
		ask_free(a);
		return;
	}
	watch_set(a->watch,
		buf_len(&a->out) > 0 || stream_peek(a->stream, &data) > 0 ? WATCH_WRITE
									  : WATCH_HUP);
}

static void
on_ask_socket(void *arg, int fd, unsigned events)
{
	(void)fd;
	if (events & WATCH_HUP)
		ask_free(arg);
	else
		ask_pass(arg);
}

static void
on_ask_answered(void *arg, unsigned status, const char *reason)
{
	struct hub_ask *a = arg;

	if (status != 200) {
		ask_refuse(a, status == 404 ? 502 : (int)status, ask_reason(status, reason));
		return;
	}
	buf_adds(&a->out,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
	a->ends_ms = loop_now_ms(a->hub->loop) + AGENT_QUERY_MS;
	timer_start(a->deadline, HUB_ASK_SILENT_MS, 0);
	a->watch = watch_start(a->hub->loop, a->fd, WATCH_WRITE, on_ask_socket, a);
}

static void
on_ask_readable(void *arg)
{
	struct hub_ask *a = arg;

	if (a->watch != NULL)
		ask_pass(a);
}

static void
on_ask_reset(void *arg, unsigned code)
{
	struct hub_ask *a = arg;

	if (a->watch != NULL)
		ask_free(a);
	else
		ask_refuse(a, 502,
			code == STREAM_LOST ? "its tunnel broke"
					    : "its agent has broken off the answer");
}

static void
on_ask_late(void *arg)
{
	struct hub_ask *a = arg;

	if (a->watch == NULL) {
		ask_refuse(a, 504, "its agent does not answer");
	} else if (a->passed == a->looked || loop_now_ms(a->hub->loop) >= a->ends_ms) {
		ask_free(a);
	} else {
		a->looked = a->passed;
		timer_start(a->deadline, HUB_ASK_SILENT_MS, 0);
	}
}

static int
ask_open(struct hub_ask *a, const char *target)
{
	static const struct stream_events events = {
		.answered = on_ask_answered, .readable = on_ask_readable, .reset = on_ask_reset};
	const struct stream_field fields[] = {
		{REACHABILITY_ASK, AGENT_QUERY_ASK}, {AGENT_QUERY_TARGET, target}};
	const struct stream_request request = {.authority = REACHABILITY_AUTHORITY,
		.fields = fields,
		.n_fields = ARRAY_LEN(fields)};
	struct peers_ask other = {.node = a->node, .request = &request, .events = &events, .to = a};
	int rc = tunnels_open(a->hub->tunnels, a->node, &request, &events, a, &a->stream);

	if (rc == -ENOTCONN && (rc = peers_open(a->hub->peers, &other)) == 0)
		a->stream = other.stream;
	return rc;
}

/* Returns true for a valid path and query, as in an HTTP request line. */
static bool
ask_target_ok(const char *target)
{
	if (*target != '/')
		return false;
	for (const char *c = target; *c != '\0'; c++)
		if (*c <= ' ' || *c >= 0x7f)
			return false;
	return true;
}

void
hub_ask_agent(struct hub *hub, int fd, const char *query)
{
	char node[MESH_NODE_MAX + 1] = "", target[512] = "";
	struct hub_ask *a;
	int rc;

	if (admin_query(query, "node", node, sizeof node) != 1 || !node_name_ok(node) ||
		admin_query(query, "target", target, sizeof target) != 1 ||
		!ask_target_ok(target)) {
		ask_answer(
			fd, 400, "node and target: a node's name, and what is asked of its agent");
		return;
	}
	if (hub->n_asks >= HUB_ASKS_MOST) {
		ask_answer(fd, 503, "too many ask agents at the same time");
		return;
	}
	a = xcalloc(1, sizeof *a);
	a->hub = hub;
	a->fd = fd;
	a->node = xstrdup(node);
	buf_init(&a->out, BUF_UNLIMITED);
	a->deadline = timer_new(hub->loop, on_ask_late, a);
	LIST_INSERT_HEAD(&hub->asks, a, link);
	hub->n_asks++;
	timer_start(a->deadline, HUB_ASK_MS, 0);
	if ((rc = ask_open(a, target)) == -ENOTCONN)
		ask_refuse(a, 502, "it has no tunnel to any hub now");
	else if (rc < 0)
		ask_refuse(a, 503, strerror(-rc));
	else
		log_info("audit", "door=admin caller=\"local\" target=\"agent of %s %s\"", node,
			target);
}

void
hub_asks_end(struct hub *hub)
{
	struct hub_ask *a;

	while ((a = LIST_FIRST(&hub->asks)) != NULL)
		ask_free(a);
}
