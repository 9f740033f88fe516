/*
 * Routes are tried in order; `current` is the one in use. Answers come from events of the stream or
 * from the timer `soon`, never from within connector_start. The states are drawn in
 * doc/states/connect.dot.
 */
#include "hub/routing/connector.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/core/figures.h"
#include "base/core/hops.h"
#include "base/core/log.h"
#include "base/core/state.h"
#include "hub/routing/connector_private.h"

enum { UNSETTLED_MS = 10, REFUSALS_MAX = 5, BREAKS_MAX = 3 };

enum connect_state {
	CONNECT_NEW, /* no route is in use */
	CONNECT_DIALLING, /* a stream waits for its answer */
	CONNECT_PAUSING, /* the same route is dialled again in a moment */
	CONNECT_WAITING, /* for a node that was lost a moment ago, till wait_end_ms */
	CONNECT_ANSWERING, /* the answer is given at the next turn */
};

static const char *const state_names[] = {
	[CONNECT_NEW] = "new",
	[CONNECT_DIALLING] = "dialling",
	[CONNECT_PAUSING] = "pausing",
	[CONNECT_WAITING] = "waiting",
	[CONNECT_ANSWERING] = "answering",
};

static const uint32_t state_next[] = {
	[CONNECT_NEW] = STATE_TO(CONNECT_DIALLING) | STATE_TO(CONNECT_PAUSING) |
		STATE_TO(CONNECT_WAITING) | STATE_TO(CONNECT_ANSWERING),
	[CONNECT_DIALLING] = STATE_TO(CONNECT_DIALLING) | STATE_TO(CONNECT_PAUSING) |
		STATE_TO(CONNECT_WAITING) | STATE_TO(CONNECT_ANSWERING),
	[CONNECT_PAUSING] = STATE_TO(CONNECT_DIALLING) | STATE_TO(CONNECT_PAUSING) |
		STATE_TO(CONNECT_WAITING) | STATE_TO(CONNECT_ANSWERING),
	[CONNECT_WAITING] = STATE_TO(CONNECT_PAUSING) | STATE_TO(CONNECT_ANSWERING),
	[CONNECT_ANSWERING] = 0,
};
static const struct state_machine states = {"connect", "hub", state_names, state_next};

struct connect_op {
	TAILQ_ENTRY(connect_op) link; /* the oldest first */
	LIST_ENTRY(connect_op) among_waiting;
	struct connector *reach;
	struct routes *ways;
	enum connect_state state;
	size_t current; /* the route in use, unless the state is CONNECT_NEW or `refused` */
	bool refused; /* by the rules or limits, before any route was used */
	bool udp;
	bool chosen; /* one endpoint of a service: the caller has others */
	bool kept, held; /* of the request */
	/* whose streams it may use, and whose memory the hub's own dials use */
	char caller_key[ACCESS_NAME_MAX + 8];
	char caller[ACCESS_NAME_MAX + 8];
	struct stream *stream;
	/* of the node's tunnel that carries the stream; 0: another path carries it */
	uint64_t epoch;
	bool elsewhere; /* in another replica's tunnel */
	const struct buf *first; /* of the request */
	size_t sent; /* bytes of `first` sent in this stream */
	/* number of replicas asked to forward to a replica that this one cannot reach */
	unsigned between;
	char at[PEER_NAME_TEXT]; /* with `elsewhere`: the name of that replica */
	char traceparent[TRACEPARENT_LEN + 1]; /* "": none */
	char hops[HOPS_TEXT_MAX]; /* including this hub */
	unsigned refusals; /* streams refused by nodes that had not started on them */
	unsigned breaks; /* tunnels, and connections to replicas, that broke during the dial */
	bool await; /* a required node was lost a moment ago */
	uint64_t wait_end_ms; /* 0: it has not waited yet */
	uint64_t since_ms;
	struct timer *soon; /* NULL: not needed yet */
	unsigned status; /* the pending answer; 0: none yet */
	char reason[CALLER_REASON_MAX];
	char target[3 * MESH_NODE_MAX + 64];
	connector_fn *done;
	void *arg;
};

static void dial_route(struct connect_op *x);
static void on_soon(void *arg);
static void on_deadline(void *arg);

static const struct way *
route_in_use(const struct connect_op *x)
{
	return &x->ways->list[x->current];
}

struct connector *
connector_new(const struct connector_config *config)
{
	struct connector *r = xcalloc(1, sizeof *r);

	r->config = *config;
	TAILQ_INIT(&r->all);
	LIST_INIT(&r->waiting);
	page_pool_init(&r->ops, sizeof(struct connect_op));
	page_pool_init(&r->routes, sizeof(struct routes));
	r->deadline = timer_new(config->loop, on_deadline, r);
	r->pool = stream_pool_new(config->loop);
	return r;
}

void
connector_free(struct connector **out)
{
	struct connector *r = take_ptr(out);

	if (r == NULL)
		return;
	stream_pool_free(&r->pool);
	page_pool_give(&r->routes, take_ptr(&r->found));
	page_pool_fini(&r->routes);
	page_pool_fini(&r->ops);
	timer_free(&r->deadline);
	free(r);
}

static void
leave_waiting(struct connect_op *x)
{
	if (x->state != CONNECT_WAITING)
		return;
	x->reach->n_waiting--;
	LIST_REMOVE(x, among_waiting);
}

/* Every change of the state goes through this. */
static void
connector_enter(struct connect_op *x, enum connect_state to)
{
	leave_waiting(x);
	x->state = state_go(&states, x->state, to);
	if (to != CONNECT_WAITING)
		return;
	x->reach->n_waiting++;
	LIST_INSERT_HEAD(&x->reach->waiting, x, among_waiting);
}

static void
connector_wait(struct connect_op *x, uint64_t ms)
{
	if (x->soon == NULL)
		x->soon = timer_new(x->reach->config.loop, on_soon, x);
	timer_start(x->soon, ms, 0);
}

static void
free_reaching(struct connect_op *x)
{
	struct connector *r = x->reach;

	r->pending--;
	TAILQ_REMOVE(&r->all, x, link);
	leave_waiting(x);
	if (x->stream != NULL)
		stream_close(&x->stream, STREAM_CANCELLED);
	timer_free(&x->soon);
	page_pool_give(&r->routes, x->ways);
	page_pool_give(&r->ops, x);
}

/* Not of a stream that is part of a trace, whose span at the node ends with it, nor by a neighbour
 * or an intermediate replica: the node's own tunnel is looked for each time. */
static struct stream_use *
connect_op_use(const struct connect_op *x)
{
	const struct way *way = route_in_use(x);
	const struct stream_key key = {.caller = x->caller_key,
		.hops = x->hops,
		.service = x->ways->service,
		.node = way->node,
		.authority = way->authority,
		.epoch = connector_epoch(x->reach, way->node)};

	if (!x->kept || x->traceparent[0] != '\0' || way->final_node[0] != '\0' ||
		(x->elsewhere && x->epoch == 0))
		return NULL;
	return stream_use_new(x->reach->pool, &key, x->target, x->elsewhere ? x->at : "");
}

static void
connector_give(struct connect_op *x)
{
	struct connector_answer answer = {
		.status = x->status,
		.reason = x->reason,
		.stream = x->status == 200 ? take_ptr(&x->stream) : NULL,
		.target = x->target,
		.via = x->refused ? "" : route_in_use(x)->node,
		.final_node = x->refused ? "" : route_in_use(x)->final_node,
		.at = x->elsewhere ? x->at : "",
		.where = &x->ways->target,
		.sent = x->status == 200 ? x->sent : 0,
		.node = x->ways->target.kind == TARGET_NODE && x->ways->target.node != NULL
			? x->ways->target.node
			: "",
		.use = x->status == 200 ? connect_op_use(x) : NULL,
	};

	connector_count(x->reach, x->status);
	x->done(x->arg, &answer);
	free_reaching(x);
}

void
connector_grant(struct connector_answer *answer, struct grant *grant, const struct caller *caller)
{
	if (answer->status != 200)
		return;
	answer->status = grant_open(grant, caller, answer->where, answer->via, &answer->reason);
	if (answer->status == 200)
		return;
	stream_close(&answer->stream, STREAM_CANCELLED);
	stream_use_free(&answer->use);
}

static void
on_soon(void *arg)
{
	struct connect_op *x = arg;

	if (x->state == CONNECT_PAUSING)
		dial_route(x);
	else
		connector_give(x);
}

/* Dials the same route again: the tunnel has just been opened and its node has not announced its
 * capabilities yet, or it began to drain a moment ago and there is a newer one, or it was lost. */
static void
dial_again(struct connect_op *x, uint64_t wait_ms)
{
	connector_enter(x, CONNECT_PAUSING);
	connector_wait(x, wait_ms);
}

/* The owner is told at the next turn. */
static void
answer_soon(struct connect_op *x, unsigned status, const char *reason)
{
	connector_enter(x, CONNECT_ANSWERING);
	x->status = status;
	if (reason != x->reason)
		snprintf(x->reason, sizeof x->reason, "%s", reason);
	connector_wait(x, 0);
}

/* A waiting request holds its caller's connection, and all of them are dialled at once when the
 * node comes. */
static bool
room_to_wait(const struct connect_op *x)
{
	const char *node = route_in_use(x)->node;
	const struct connect_op *other;
	unsigned n = 0;

	if (x->reach->n_waiting >= CONNECTOR_AWAIT_MOST)
		return false;
	LIST_FOREACH(other, &x->reach->waiting, among_waiting)
		n += strcmp(route_in_use(other)->node, node) == 0;
	return n < CONNECTOR_AWAIT_NODE;
}

/* Waits for the node to come, here or at another replica; if it does not, the answer is the present
 * one. */
static void
connector_await(struct connect_op *x)
{
	uint64_t now = loop_now_ms(x->reach->config.loop);
	size_t len = strlen(x->reason);

	if (!room_to_wait(x)) {
		x->reach->crowded++;
		snprintf(x->reason + len, sizeof x->reason - len, "; too many others wait for it");
		answer_soon(x, 503, x->reason);
		return;
	}
	if (x->wait_end_ms == 0)
		x->wait_end_ms = now + CONNECTOR_AWAIT_MS;
	connector_enter(x, CONNECT_WAITING);
	connector_wait(x, x->wait_end_ms > now ? x->wait_end_ms - now : 0);
}

/* For a node without a tunnel: adds the routes through its neighbours. */
static void
look_beside(struct connect_op *x)
{
	const char *why;
	size_t len = strlen(x->reason);

	if (routes_beside(x->reach->config.ways, x->ways, x->current, &why) == 0 && why != NULL)
		snprintf(x->reason + len, sizeof x->reason - len, "; %s", why);
}

static void
tell_neighbours(const struct connect_op *x, bool worked)
{
	const struct way *way = route_in_use(x);
	struct neighbours *n = x->reach->config.neighbours;

	if (n == NULL)
		return;
	if (way->final_node[0] != '\0')
		neighbours_result(n, way->final_node, &way->neighbour, worked);
	else if (worked)
		neighbours_own(n, way->node);
}

/* This route has failed: tries another one, if nothing was sent on the first. 503: there was no
 * tunnel. */
static void
give_up_way(struct connect_op *x, unsigned status, const char *reason)
{
	bool beside = route_in_use(x)->final_node[0] != '\0';
	bool others = status == 502 || status == 503 || status == 504 ||
		(beside && (status == 403 || status == 404)); /* another neighbour may know it */

	if (x->stream != NULL)
		stream_close(&x->stream, STREAM_CANCELLED);
	snprintf(x->reason, sizeof x->reason, "%s", reason);
	x->status = status;
	tell_neighbours(x, false);
	if (status == 503)
		look_beside(x);
	if (others && x->current + 1 < x->ways->n) {
		x->current++;
		dial_route(x);
	} else if (status == 503 && x->await) {
		connector_await(x);
	} else {
		answer_soon(x, status, x->reason);
	}
}

/* No tunnel of the route's node took the stream: the node may have one again in a moment. */
static void
give_up_node(struct connect_op *x, const char *reason)
{
	const struct connector_config *c = &x->reach->config;

	x->await |= (x->breaks > 0 && x->breaks <= BREAKS_MAX) ||
		tunnels_await(c->tunnels, route_in_use(x)->node, !x->chosen) ||
		tunnels_silent(c->tunnels, route_in_use(x)->node) ||
		(c->peers != NULL && peers_await(c->peers, route_in_use(x)->node));
	give_up_way(x, 503, reason);
}

/* A node must not choose other statuses, which have a meaning of their own for callers: 407 asks
 * for a password. */
static unsigned
status_to_tell(unsigned status)
{
	for (size_t i = 0; i < STATUSES; i++)
		if (status >= 400 && connector_statuses[i] == status)
			return status;
	return 502;
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct connect_op *x = arg;
	const struct way *way = route_in_use(x);
	char text[CALLER_REASON_MAX];

	if (x->state != CONNECT_DIALLING)
		return;
	if (status == 421 && x->elsewhere) {
		if (x->epoch != 0)
			peers_doubt(x->reach->config.peers, way->node, x->epoch);
		else
			x->between++;
		stream_close(&x->stream, STREAM_CANCELLED);
		dial_route(x); /* another replica may have it */
		return;
	}
	if (status == 200) {
		connector_enter(x, CONNECT_ANSWERING);
		x->status = 200;
		tell_neighbours(x, true);
		timer_free(&x->soon);
		connector_give(x);
		return;
	}
	snprintf(text, sizeof text, "%s%s%s: %s", way->authority,
		*way->node != '\0' ? " at node " : "", way->node,
		*reason != '\0' ? reason : "refused");
	give_up_way(x, status_to_tell(status), text);
}

/*
 * The tunnel of the route's node, or the replica that has it, was lost before the node had
 * answered. Not a byte of the caller has gone out, so the worst that happened is a connection at
 * the target that was opened and closed. The dial is repeated wherever the node is by now.
 */
static void
ask_again(struct connect_op *x)
{
	stream_close(&x->stream, STREAM_CANCELLED);
	x->reach->repeated++;
	x->between = 0;
	dial_again(x, 0);
}

static void
on_reset(void *arg, unsigned code)
{
	struct connect_op *x = arg;

	if (x->state != CONNECT_DIALLING)
		return;
	/* it is unknown whether the target has received it */
	if (code == STREAM_LOST && x->sent > 0) {
		stream_close(&x->stream, STREAM_CANCELLED);
		answer_soon(x, 502,
			"the node's tunnel broke after the caller's first bytes had gone out");
		return;
	}
	if (code == STREAM_LOST && !x->udp && *route_in_use(x)->node != '\0' &&
		x->breaks++ < BREAKS_MAX) {
		ask_again(x);
		return;
	}
	if (code == STREAM_REFUSED && x->refusals++ < REFUSALS_MAX) {
		stream_close(&x->stream, STREAM_CANCELLED);
		dial_again(x, UNSETTLED_MS);
		return;
	}
	if (*route_in_use(x)->node == '\0')
		give_up_way(x, 503, "the hub's own dial was broken off");
	else if (x->elsewhere)
		give_up_node(x, "the replica that has the node's tunnel was lost while dialling");
	else
		give_up_node(x,
			code == STREAM_LOST ? "the node's tunnel broke while dialling"
					    : "the node refused the stream");
}

static const struct stream_events events = {.answered = on_answered, .reset = on_reset};

/* As tunnels_open, in the node's own tunnel at another replica. */
static int
open_elsewhere(struct connect_op *x, const char *node, const struct stream_request *request)
{
	struct peers_ask ask = {.node = node,
		.request = request,
		.events = &events,
		.to = x,
		.between = x->between};
	int rc = peers_open(x->reach->config.peers, &ask);
	size_t at = strlen(x->target);

	if (rc < 0)
		return rc;
	x->stream = ask.stream;
	x->epoch = ask.epoch;
	x->elsewhere = true;
	snprintf(x->at, sizeof x->at, "%s", ask.at);
	snprintf(x->target + at, sizeof x->target - at, "%s%s",
		ask.epoch != 0 ? " at " : " by way of ", ask.at);
	return 0;
}

static int
open_way(struct connect_op *x, const struct way *way)
{
	const struct connector_config *c = &x->reach->config;
	struct stream_field fields[5] = {{"edgeway-caller", x->caller}, {HOPS_FIELD, x->hops}};
	struct stream_request request = {.authority = way->authority,
		.fields = fields,
		.n_fields = 2,
		.udp = x->udp,
		.held = x->held};
	int rc;

	x->epoch = 0;
	x->elsewhere = false;
	if (x->ways->service[0] != '\0')
		fields[request.n_fields++] =
			(struct stream_field){"edgeway-service", x->ways->service};
	if (way->final_node[0] != '\0')
		fields[request.n_fields++] =
			(struct stream_field){"edgeway-reach", way->final_node};
	if (x->traceparent[0] != '\0')
		fields[request.n_fields++] = (struct stream_field){"traceparent", x->traceparent};

	if (*way->node == '\0')
		return local_dial_open(c->cloud, x->caller_key, &request, &events, x, &x->stream);
	x->epoch = tunnels_epoch(c->tunnels, way->node);
	/* before a standby tunnel here */
	if (c->peers != NULL && peers_epoch(c->peers, way->node) > x->epoch &&
		open_elsewhere(x, way->node, &request) == 0)
		return 0;
	rc = tunnels_open(c->tunnels, way->node, &request, &events, x, &x->stream);
	if ((rc == -ENOTCONN || rc == -ESHUTDOWN) && c->peers != NULL)
		rc = open_elsewhere(x, way->node, &request);
	return rc;
}

/* Sends the caller's first bytes without waiting for the answer. Not into a tunnel that seems dead:
 * after that, the dial could not move to another tunnel. */
static void
send_first(struct connect_op *x)
{
	size_t n;

	if (x->first == NULL || x->stream == NULL || stream_is_doubted(x->stream))
		return;
	n = MIN(buf_len(x->first) - x->sent, stream_room(x->stream));
	stream_write(x->stream, (const char *)buf_at(x->first) + x->sent, n);
	x->sent += n;
}

static void
tell_without(const struct connect_op *x, const char *node, char text[CALLER_REASON_MAX])
{
	if (x->breaks > 0)
		snprintf(text, CALLER_REASON_MAX,
			"the tunnel of node %s broke while it was asked, and it has not come back",
			node);
	else
		snprintf(text, CALLER_REASON_MAX,
			"node %s has no tunnel to this hub%s: is its agent running, with "
			"tunnel.enabled?",
			node, x->reach->config.peers != NULL ? " or its replicas" : "");
}

static void
dial_route(struct connect_op *x)
{
	const struct way *way = route_in_use(x);
	char text[CALLER_REASON_MAX];
	int rc;

	snprintf(x->target, sizeof x->target, "%s%s%s%s%s", way->authority,
		way->final_node[0] != '\0' ? " for " : "", way->final_node,
		*way->node != '\0' ? " via " : " from the hub", way->node);
	x->sent = 0;
	if ((rc = open_way(x, way)) == 0) {
		connector_enter(x, CONNECT_DIALLING);
		send_first(x);
		return;
	}
	if (rc == -EINPROGRESS) {
		dial_again(x, UNSETTLED_MS);
		return;
	}
	if (rc == -ENOTCONN || rc == -ESHUTDOWN) {
		tell_without(x, way->node, text);
		give_up_node(x, text);
		return;
	}
	if (rc == -EPROTONOSUPPORT || rc == -EAGAIN)
		snprintf(text, sizeof text, "%s at node %s: %s", way->authority, way->node,
			tunnels_why_not(rc));
	else
		snprintf(text, sizeof text, "no stream to %s: %s", way->authority, strerror(-rc));
	give_up_way(x, 503, text);
}

/* True if the node has a newer tunnel than the one that is waiting for an answer, or if that one no
 * longer answers anything. */
static bool
passed_by(const struct connect_op *x, const char *node)
{
	const struct connector_config *c = &x->reach->config;
	uint64_t here = tunnels_epoch(c->tunnels, node), there = peers_epoch(c->peers, node);

	return x->stream != NULL && x->sent == 0 &&
		((x->epoch != 0 && MAX(here, there) > x->epoch) || stream_is_silent(x->stream));
}

/* Starts again with the current route, or, after waiting, with the first. */
static void
look_again(struct connect_op *x)
{
	if (x->stream != NULL)
		stream_close(&x->stream, STREAM_CANCELLED);
	if (x->state == CONNECT_WAITING) {
		x->current = 0;
		connector_enter(x, CONNECT_PAUSING);
	}
	timer_free(&x->soon);
	x->between = 0;
	x->await = false;
	dial_route(x);
}

/* True if a waiting request can now use this node, or a neighbour of its own node. */
static bool
connector_concerns(const struct connect_op *x, const char *node)
{
	struct neighbours *n = x->reach->config.neighbours;

	if (node == NULL)
		return true;
	for (size_t i = 0; i < x->ways->n; i++)
		if (strcmp(x->ways->list[i].node, node) == 0 ||
			(n != NULL && neighbours_stand_for(n, x->ways->list[i].node)))
			return true;
	return false;
}

void
connector_changed(struct connector *r, const char *node)
{
	struct connect_op *x, *next;

	if (r->config.peers == NULL)
		return;
	for (x = TAILQ_FIRST(&r->all); x != NULL; x = next) {
		const char *its = x->refused ? "" : route_in_use(x)->node;

		next = TAILQ_NEXT(x, link);
		if (x->state == CONNECT_WAITING) {
			if (connector_concerns(x, node))
				look_again(x);
		} else if (*its != '\0' && (node == NULL || strcmp(its, node) == 0) &&
			passed_by(x, its)) {
			look_again(x);
		}
	}
}

static void
connector_expire(struct connect_op *x)
{
	if (x->stream != NULL)
		stream_close(&x->stream, STREAM_CANCELLED);
	if (x->state == CONNECT_WAITING)
		answer_soon(x, 503, x->reason);
	else
		answer_soon(x, 504, "no answer from the node in time");
}

/* All have the same time, so that one timer is enough: the oldest is the first. */
static void
on_deadline(void *arg)
{
	uint64_t now = loop_now_ms(((struct connector *)arg)->config.loop);
	struct connector *r = arg;
	struct connect_op *x;

	TAILQ_FOREACH(x, &r->all, link) {
		if (x->since_ms + CONNECTOR_MS > now) {
			timer_start(r->deadline, x->since_ms + CONNECTOR_MS - now, 0);
			return;
		}
		if (x->state != CONNECT_ANSWERING)
			connector_expire(x);
	}
}

/* Uses the larger of two hop counts: that of the caller's connection, which is kept where packets
 * are forwarded, and that of the request, which proxies keep as well. */
static bool
connector_goes_round(struct connect_op *x, const struct connector_request *q)
{
	unsigned hops = MAX(q->caller->hops, q->hops);
	char target[CALLER_HOST_MAX + 8];

	hops_text(hops + 1, x->hops);
	if (hops < HOPS_MAX)
		return false;
	log_limited(LOG_LEVEL_WARN, 6, "ingress",
		"loop detected: the stream has passed through Edgeway as often as it may; what is "
		"asked for, or an endpoint on the way, leads back here caller=%s target=\"%s\"",
		x->caller, log_clean(target, sizeof target, x->target));
	return true;
}

struct connect_op *
connector_start(
	struct connector *r, const struct connector_request *q, connector_fn *done, void *arg)
{
	struct connect_op *x = page_pool_take(&r->ops);
	unsigned status;

	x->reach = r;
	x->done = done;
	x->arg = arg;
	x->udp = q->udp;
	x->chosen = q->service != NULL;
	x->kept = q->kept;
	x->held = q->held;
	x->first = q->first;
	x->since_ms = loop_now_ms(r->config.loop);
	r->pending++;
	TAILQ_INSERT_TAIL(&r->all, x, link);
	if (!timer_active(r->deadline))
		timer_start(r->deadline, CONNECTOR_MS, 0);
	caller_text(q->caller, x->caller);
	caller_name(q->caller, x->caller_key);
	if (q->trace != NULL)
		traceparent_text(x->traceparent, q->trace);
	if (q->service != NULL) /* host:port */
		snprintf(x->target, sizeof x->target, "%.200s", q->host);
	else
		snprintf(x->target, sizeof x->target,
			strchr(q->host, ':') != NULL ? "[%.200s]:%u" : "%.200s:%u", q->host,
			q->port);
	x->refused = true;
	x->ways = connector_routes(r, q, &status);
	if (connector_goes_round(x, q)) {
		answer_soon(x, 508, HOPS_REASON);
	} else if (q->full != NULL) {
		answer_soon(x, 429, q->full);
	} else if (status != 0 ||
		(status = routes_judge(r->config.ways, q->caller, x->ways)) != 0) {
		answer_soon(x, status, x->ways->reason);
	} else {
		x->refused = false;
		dial_route(x);
	}
	return x;
}

bool
connector_is_let_in(const struct connect_op *x)
{
	return !x->refused;
}

void
connector_more(struct connect_op *x)
{
	send_first(x);
}

void
connector_cancel(struct connect_op **out)
{
	struct connect_op *x = take_ptr(out);

	if (x == NULL)
		return;
	free_reaching(x);
}

unsigned
connector_pending(const struct connector *r)
{
	return r->pending;
}

uint64_t
connector_loops(const struct connector *r)
{
	for (size_t i = 0; i < STATUSES; i++)
		if (connector_statuses[i] == 508)
			return r->answers[i];
	return 0;
}

static const struct figure connector_figures[] = {
	FIGURE(struct connector, crowded, "edgeway_ingress_crowded_total", NULL,
		"Callers that could not wait for a node, since too many others did.", NULL),
	FIGURE(struct connector, repeated, "edgeway_ingress_repeated_total", NULL,
		"Dials that were begun again since the tunnel broke that they were under way in.",
		NULL),
	FIGURE(struct connector, n_waiting, "edgeway_ingress_waiting", NULL,
		"Callers that wait for a node, now.", NULL),
	FIGURE(struct connector, pending, "edgeway_ingress_pending", NULL, "Dials under way.",
		NULL),
};

void
connector_metrics(const struct connector *r, struct metrics *m)
{
	char label[32];

	for (size_t i = 0; i < STATUSES; i++) {
		snprintf(label, sizeof label, "status=\"%u\"", connector_statuses[i]);
		metric_counter(m, "edgeway_ingress_dials_total",
			"Answers to what was asked for at the ingress.", label, r->answers[i]);
	}
	figures_metrics(FIGURES(connector_figures), r, m);
	stream_pool_metrics(r->pool, m);
}
