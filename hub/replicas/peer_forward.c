#include "hub/replicas/peers_private.h"

#include <errno.h>
#include <string.h>

#include "hub/port/route.h"

enum { TRIPS_MOST = 16384 };

/* A stream that a replica asks for, opened in the node's tunnel here. */
struct trip {
	LIST_ENTRY(trip) link;
	struct peers *of;
	struct stream *near, *far; /* the replica's and the node's, until they are joined */
	struct stream_join join;
	struct grant grant; /* the node's account alone */
	uint64_t since_ms;
	char *by, *caller, *node, *target;
};

static void
trip_free(struct trip *t)
{
	struct peers *p = t->of;

	LIST_REMOVE(t, link);
	p->n_trips--;
	stream_join_fini(&t->join);
	stream_close(&t->near, STREAM_CANCELLED);
	stream_close(&t->far, STREAM_CANCELLED);
	grant_end(&t->grant);
	free(t->by);
	free(t->caller);
	free(t->node);
	free(t->target);
	free(t);
	peers_say_drained(p);
}

/* Writes the audit log line; the replica that asked writes one, too. */
static void
peer_forward_tell(
	const struct trip *t, unsigned status, const struct relay_report *report, const char *end)
{
	grant_audit(t->of->config.grants,
		&(struct audit){
			.door = "peer",
			.peer = t->by,
			.caller = t->caller,
			.target = t->target,
			.status = status,
			.sent = report != NULL ? report->to_other : 0,
			.received = report != NULL ? report->to_stream : 0,
			.since_ms = t->since_ms,
			.end = end,
		});
}

static void
peer_forward_refuse(struct trip *t, unsigned status, const char *reason)
{
	if (status == 421)
		t->of->not_here++;
	else
		t->of->unpassed++;
	peer_forward_tell(t, status, NULL, reason);
	stream_answer(t->near, status, reason);
	trip_free(t);
}

/* Nothing was sent to the node, so the replica that asked may retry. */
static void
pass_refusal(struct trip *t)
{
	t->of->unpassed++;
	peer_forward_tell(t, 0, NULL, "the node refused the stream");
	stream_close(&t->near, STREAM_REFUSED);
	trip_free(t);
}

static void
peer_forward_on_ended(void *arg, const struct relay_report *report)
{
	struct trip *t = arg;

	peer_forward_tell(t, 200, report, report->why);
	trip_free(t);
}

static void
peer_forward_join(struct trip *t)
{
	const struct relay_setup setup = {
		.loop = t->of->config.loop,
		.stream = take_ptr(&t->near),
		.rates = {grant_rate(&t->grant, QUOTA_NODE)},
		.ended = peer_forward_on_ended,
		.arg = t,
	};

	t->of->passed++;
	stream_answer(setup.stream, 200, "");
	stream_join_init(&t->join, &setup, take_ptr(&t->far));
}

static void
on_far_answered(void *arg, unsigned status, const char *reason)
{
	struct trip *t = arg;

	if (status != 200) {
		/* 421 is reserved for this hub: the other replica would not ask for the node here
		 * again. */
		peer_forward_refuse(
			t, status >= 400 && status <= 599 && status != 421 ? status : 502, reason);
		return;
	}
	peer_forward_join(t);
}

static void
on_far_reset(void *arg, unsigned code)
{
	struct trip *t = arg;

	if (code == STREAM_REFUSED)
		pass_refusal(t);
	else if (code == STREAM_LOST)
		peer_forward_refuse(t, 421, "the node's tunnel broke while dialling");
	else
		peer_forward_refuse(t, 503, "the node broke off the stream");
}

/* The replica that asked has given up. */
static void
on_near_reset(void *arg, unsigned code)
{
	struct trip *t = arg;

	peer_forward_tell(
		t, 0, NULL, code == STREAM_LOST ? "the replica was lost" : "the caller has gone");
	trip_free(t);
}

static const struct stream_events near_events = {.reset = on_near_reset};
static const struct stream_events far_events = {.answered = on_far_answered, .reset = on_far_reset};

/* The request as received, without the fields for this hub. */
static struct stream_request
trip_request(const struct stream_request *request, struct stream_field fields[STREAM_FIELDS_MAX])
{
	static const char *const ours[] = {"edgeway-node", "edgeway-hop", PEER_BETWEEN};
	struct stream_request on = {
		.authority = request->authority, .udp = request->udp, .fields = fields};

	for (size_t i = 0; i < request->n_fields; i++) {
		bool is_ours = false;

		for (size_t k = 0; k < ARRAY_LEN(ours); k++)
			is_ours |= strcmp(request->fields[i].name, ours[k]) == 0;
		if (!is_ours)
			fields[on.n_fields++] = request->fields[i];
	}
	return on;
}

static int
open_far(struct trip *t, const struct stream_request *request)
{
	struct stream_field fields[STREAM_FIELDS_MAX];
	const struct stream_request on = trip_request(request, fields);

	return tunnels_open(t->of->config.tunnels, t->node, &on, &far_events, t, &t->far);
}

static struct trip *
trip_new(struct guest *g, struct stream *st, const struct stream_request *request)
{
	struct peers *p = g->of;
	struct trip *t = xcalloc(1, sizeof *t);

	t->of = p;
	t->since_ms = loop_now_ms(p->config.loop);
	t->by = xstrdup(g->name[0] != '\0' ? g->name : g->address);
	t->caller = xstrdup(stream_field_of(request, "edgeway-caller"));
	t->node = xstrdup(stream_field_of(request, "edgeway-node"));
	t->target = xasprintf("%.260s via %s", request->authority, t->node);
	t->near = st;
	LIST_INSERT_HEAD(&p->trips, t, link);
	p->n_trips++;
	stream_accept(st, &near_events, t);
	return t;
}

/* Another replica has the node, and the replica that asks cannot reach it. */
static int
open_beyond(struct trip *t, const struct stream_request *request)
{
	struct peers *p = t->of;
	struct stream_field fields[STREAM_FIELDS_MAX];
	const struct stream_request on = trip_request(request, fields);
	struct peers_ask ask = {.node = t->node, .request = &on, .events = &far_events, .to = t};
	struct line *l = tunnel_directory_holder(p->roster, t->node, &ask.epoch);
	int rc = peers_open_at(p, l, &ask, false);

	t->far = ask.stream;
	return rc;
}

unsigned
trip_begin(struct guest *g, struct stream *st, const struct stream_request *request,
	const char **reason)
{
	struct peers *p = g->of;
	struct trip *t;
	int rc;

	*reason = "it was passed on before: this hub passes nothing on twice";
	if (strcmp(stream_field_of(request, "edgeway-hop"), "1") != 0)
		return 508;
	*reason = "edgeway-node does not name a node";
	if (!node_name_ok(stream_field_of(request, "edgeway-node")))
		return 400;
	*reason = "this hub passes on too many streams";
	if (p->n_trips >= TRIPS_MOST)
		return 503;
	peers_charge(p, st, request, stream_field_of(request, "edgeway-node"));
	if (stream_exceeds(st)) {
		stream_close(&st, STREAM_REFUSED);
		return 0;
	}
	t = trip_new(g, st, request);
	*reason = grant_node(&t->grant, p->config.grants, t->node);
	if (*reason != NULL) {
		peer_forward_refuse(t, 429, *reason);
		return 0;
	}
	*reason = p->config.refuses(p->config.arg, t->node, request->authority);
	if (*reason != NULL) {
		peer_forward_refuse(t, 403, *reason);
		return 0;
	}
	if (!request->udp)
		p->config.passes(p->config.arg, t->caller, t->node,
			stream_field_of(request, "edgeway-service"), request->authority);
	rc = open_far(t, request);
	if ((rc == -ENOTCONN || rc == -ESHUTDOWN) &&
		strcmp(stream_field_of(request, PEER_BETWEEN), "1") == 0)
		rc = open_beyond(t, request);
	if (rc == -ENOTCONN || rc == -ESHUTDOWN)
		peer_forward_refuse(t, 421, "the node's tunnel is not here any more");
	else if (rc < 0)
		peer_forward_refuse(t, rc == -EINVAL ? 400 : 503, tunnels_why_not(rc));
	return 0;
}

void
trips_look(struct peers *p)
{
	struct trip *t, *next;

	for (t = LIST_FIRST(&p->trips); t != NULL; t = next) {
		next = LIST_NEXT(t, link);
		if (t->far != NULL && stream_is_silent(t->far))
			peer_forward_refuse(t, 421, "the node's tunnel does not answer");
	}
}

void
trips_free(struct peers *p)
{
	while (!LIST_EMPTY(&p->trips))
		trip_free(LIST_FIRST(&p->trips));
}
