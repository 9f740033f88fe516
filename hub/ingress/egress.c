#include "hub/ingress/egress.h"

#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/core/hops.h"
#include "base/core/log.h"
#include "model/allow_from.h"

enum { MOST = 16384, OF_A_NODE = MOST / 8 };

struct trip {
	LIST_ENTRY(trip) link;
	struct egress *of;
	struct stream *stream; /* the node's stream, until it is joined */
	struct connect_op *reaching;
	struct relay *relays
		/* the node's stream and the stream to the endpoint, with a socket pair in
		 * between */
		[2];
	struct relay_report report; /* of relays[0] */
	unsigned n_relays;
	struct dgram_couple *couple; /* for datagrams, in place of the relays */
	bool udp;
	struct account *share; /* of MOST */
	struct grant grant;
	uint64_t since_ms;
	char node[MESH_NODE_MAX + 1];
	char target[2 * MESH_NODE_MAX + 64];
};

struct egress {
	struct loop *loop;
	const struct grants *grants;
	struct connector *reach;
	struct quota *shares; /* each node's share of MOST */
	LIST_HEAD(, trip) trips;
	unsigned n_trips;
	uint64_t asked, joined, limited, dropped;
};

/* --- the end -------------------------------------------------------------------------------- */

static void
egress_tell(const struct trip *t, unsigned status, const char *end)
{
	char caller[sizeof t->node + 5];

	snprintf(caller, sizeof caller, "node:%s", t->node);
	grant_audit(t->of->grants,
		&(struct audit){
			.door = t->udp ? "outward.udp" : "outward",
			.caller = caller,
			.target = t->target,
			.status = status,
			.sent = t->report.to_other,
			.received = t->report.to_stream,
			.since_ms = t->since_ms,
			.end = end,
		});
}

static void
egress_forget(struct trip *t)
{
	quota_give(&t->share, loop_now_ms(t->of->loop));
	grant_end(&t->grant);
	free(t);
}

static void
trip_free(struct trip *t)
{
	LIST_REMOVE(t, link);
	t->of->n_trips--;
	if (t->reaching != NULL)
		connector_cancel(&t->reaching);
	relay_free(&t->relays[0]);
	relay_free(&t->relays[1]);
	dgram_couple_free(&t->couple);
	stream_close(&t->stream, STREAM_CANCELLED);
	egress_forget(t);
}

static void
on_relay_ended(struct trip *t, unsigned which, const struct relay_report *report)
{
	if (which == 0)
		t->report = *report;
	if (--t->n_relays > 0)
		return;
	egress_tell(t, 200, t->report.why);
	trip_free(t);
}

static void
on_near_ended(void *arg, const struct relay_report *report)
{
	on_relay_ended(arg, 0, report);
}

static void
on_far_ended(void *arg, const struct relay_report *report)
{
	on_relay_ended(arg, 1, report);
}

static void
on_couple_ended(void *arg, const struct dgram_couple_report *report)
{
	struct trip *t = arg;

	t->report.to_other = report->tally.to_stream.bytes;
	t->report.to_stream = report->tally.from_stream.bytes;
	t->of->dropped += dgram_dropped(&report->tally);
	egress_tell(t, 200, report->why);
	trip_free(t);
}

/* --- requests ------------------------------------------------------------------------------- */

static void
egress_refuse(struct trip *t, unsigned status, const char *reason)
{
	stream_answer(t->stream, status, reason);
	egress_tell(t, status, reason);
	trip_free(t);
}

/* The endpoint's node stops: the calling node may hold an idle connection for later requests. */
static void
on_fading(void *arg)
{
	struct trip *t = arg;
	struct stream *near = t->relays[0] != NULL ? relay_stream(t->relays[0]) : NULL;
	const struct stream *far = t->relays[1] != NULL ? relay_stream(t->relays[1]) : NULL;

	if (near != NULL)
		stream_fade(near, far != NULL && stream_is_doubted(far));
}

static void
egress_couple(struct trip *t, struct stream *far)
{
	struct dgram_couple_setup setup = {
		.loop = t->of->loop,
		.rates = {grant_rate(&t->grant, QUOTA_CALLER), grant_rate(&t->grant, QUOTA_NODE)},
		.ended = on_couple_ended,
		.arg = t,
	};

	t->of->joined++;
	stream_answer(t->stream, 200, "");
	setup.streams[0] = take_ptr(&t->stream);
	setup.streams[1] = far;
	t->couple = dgram_couple_new(&setup);
}

static void
egress_join(struct trip *t, struct stream *far)
{
	struct relay_setup near_setup = {
		.loop = t->of->loop,
		.ended = on_near_ended,
		.arg = t,
		.rates = {grant_rate(&t->grant, QUOTA_CALLER), grant_rate(&t->grant, QUOTA_NODE)},
	};
	struct relay_setup far_setup = {
		.loop = t->of->loop, .stream = far, .ended = on_far_ended, .arg = t};
	int fds[2], rc = sock_pair(fds);

	if (rc < 0) {
		log_limited(LOG_LEVEL_ERROR, 6, "hub", "cannot join a node with an endpoint: %s",
			strerror(-rc));
		stream_close(&far, STREAM_CANCELLED);
		egress_refuse(t, 503, "the hub is short of descriptors");
		return;
	}
	t->of->joined++;
	t->n_relays = 2;
	stream_answer(t->stream, 200, "");
	stream_on_fading(far, on_fading, t);
	near_setup.stream = take_ptr(&t->stream);
	t->relays[0] = relay_join(&near_setup, fds[0]);
	t->relays[1] = relay_join(&far_setup, fds[1]);
}

static void
on_reached(void *arg, struct connector_answer *answer)
{
	struct trip *t = arg;
	struct caller caller;

	caller_node(&caller, t->node);
	connector_grant(answer, &t->grant, &caller);
	t->reaching = NULL;
	snprintf(t->target, sizeof t->target, "%s", answer->target);
	t->of->limited += answer->status == 429;
	if (answer->status != 200)
		egress_refuse(t, answer->status, answer->reason);
	else if (t->udp)
		egress_couple(t, answer->stream);
	else
		egress_join(t, answer->stream);
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)arg; /* only clients get this event */
	(void)status;
	(void)reason;
}

static void
on_moved(void *arg)
{
	(void)arg; /* input waits until the stream is joined */
}

static void
on_reset(void *arg, unsigned code)
{
	struct trip *t = arg;

	egress_tell(
		t, 0, code == STREAM_LOST ? "the node's connection was lost" : "the node has gone");
	trip_free(t);
}

static const struct stream_events stream_events = {on_answered, on_moved, on_moved, on_reset};

static const char *
egress_field(const struct stream_request *r, const char *name)
{
	for (size_t i = 0; i < r->n_fields; i++)
		if (strcmp(r->fields[i].name, name) == 0)
			return r->fields[i].value;
	return "";
}

/* NULL: the node may open another stream; else why not. */
static const char *
egress_account(struct trip *t, const struct caller *caller)
{
	struct egress *o = t->of;
	const char *why;

	t->share = quota_take(o->shares, QUOTA_CALLER, t->node, t->since_ms);
	if (t->share == NULL)
		log_limited(LOG_LEVEL_WARN, 6, "hub",
			"a node has as many connections through the hub as it may: %d node=%s",
			OF_A_NODE, t->node);
	why = t->share != NULL ? grant_take(&t->grant, o->grants, caller)
			       : "this node has as many connections through the hub as it may";
	o->limited += why != NULL;
	return why;
}

unsigned
egress_opened(void *arg, const char *node, struct stream *st, const struct stream_request *request,
	const char **reason)
{
	struct egress *o = arg;
	struct caller caller;
	struct connector_request q = {
		.caller = &caller,
		.host = request->authority,
		.service = egress_field(request, "edgeway-service"),
		.dest = egress_field(request, "edgeway-node"),
		.enforces = strcmp(egress_field(request, "edgeway-enforces"), ALLOW_FROM_KIND) == 0,
		.udp = request->udp,
	};
	struct trip *t;

	o->asked++;
	*reason = "the hub carries too many connections";
	if (o->reach == NULL || o->n_trips >= MOST)
		return 503;
	t = xcalloc(1, sizeof *t);
	t->of = o;
	t->udp = request->udp;
	t->since_ms = loop_now_ms(o->loop);
	snprintf(t->node, sizeof t->node, "%s", node);
	caller_node(&caller, node);
	caller.hops = hops_parse(egress_field(request, HOPS_FIELD));
	if ((*reason = egress_account(t, &caller)) != NULL) {
		egress_forget(t);
		return 429;
	}
	LIST_INSERT_HEAD(&o->trips, t, link);
	o->n_trips++;
	t->stream = st;
	stream_accept(st, &stream_events, t);
	t->reaching = connector_start(o->reach, &q, on_reached, t);
	return 0;
}

/* --- life ----------------------------------------------------------------------------------- */

struct egress *
egress_new(const struct grants *grants)
{
	struct egress *o = xcalloc(1, sizeof *o);

	o->loop = grants->loop;
	o->grants = grants;
	o->shares =
		quota_new(&(struct quota_limits){.of = {[QUOTA_CALLER] = {.streams = OF_A_NODE}}});
	LIST_INIT(&o->trips);
	return o;
}

void
egress_free(struct egress **out)
{
	struct egress *o = take_ptr(out);

	if (o == NULL)
		return;
	while (!LIST_EMPTY(&o->trips))
		trip_free(LIST_FIRST(&o->trips));
	quota_free(&o->shares);
	free(o);
}

void
egress_use(struct egress *o, struct connector *reach)
{
	o->reach = reach;
}

unsigned
egress_recheck(struct egress *o)
{
	struct caller caller;
	struct trip *t;
	unsigned cut = 0;

	LIST_FOREACH(t, &o->trips, link) {
		caller_node(&caller, t->node);
		if (!grant_revoked(&t->grant, &caller))
			continue;
		cut++;
		if (t->couple != NULL) {
			dgram_couple_break(t->couple, grant_rules_changed);
			continue;
		}
		relay_break(t->relays[0], grant_rules_changed);
		relay_break(t->relays[1], grant_rules_changed);
	}
	return cut;
}

void
egress_metrics(const struct egress *o, struct metrics *m)
{
	metric_counter(m, "edgeway_hub_outward_total",
		"Connections that nodes asked the hub for, and those that were made.",
		"what=\"asked\"", o->asked);
	metric_counter(m, "edgeway_hub_outward_total",
		"Connections that nodes asked the hub for, and those that were made.",
		"what=\"joined\"", o->joined);
	metric_counter(m, "edgeway_hub_outward_limited_total",
		"Connections refused: the node that asked, or the one of the endpoint, had as many "
		"as it may.",
		NULL, o->limited);
	metric_counter(m, "edgeway_hub_outward_dropped_total",
		"Datagrams of ended flows that were dropped: no room in a stream, or beyond a "
		"rate.",
		NULL, o->dropped);
	metric_gauge(m, "edgeway_hub_outward_open", "Connections of nodes through the hub, now.",
		NULL, (double)o->n_trips);
}
