#include "hub/ingress/egress.h"

#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/core/figures.h"
#include "base/core/hops.h"
#include "base/core/log.h"
#include "model/allow_from.h"

enum { MOST = 16384, OF_A_NODE = MOST / 8 };

struct trip {
	LIST_ENTRY(trip) link;
	struct egress *of;
	struct stream *stream; /* the node's stream, until it is joined */
	struct connect_op *reaching;
	struct stream_join join;
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
	uint64_t asked, joined, limited;
};

/* --- the end -------------------------------------------------------------------------------- */

static void
egress_tell(
	const struct trip *t, unsigned status, uint64_t sent, uint64_t received, const char *end)
{
	char caller[sizeof t->node + 5];

	snprintf(caller, sizeof caller, "node:%s", t->node);
	grant_audit(t->of->grants,
		&(struct audit){
			.door = t->udp ? "outward.udp" : "outward",
			.caller = caller,
			.target = t->target,
			.status = status,
			.sent = sent,
			.received = received,
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
	stream_join_fini(&t->join);
	stream_close(&t->stream, STREAM_CANCELLED);
	egress_forget(t);
}

static void
egress_on_ended(void *arg, const struct relay_report *report)
{
	egress_tell(arg, 200, report->to_other, report->to_stream, report->why);
	trip_free(arg);
}

/* --- requests ------------------------------------------------------------------------------- */

static void
egress_refuse(struct trip *t, unsigned status, const char *reason)
{
	stream_answer(t->stream, status, reason);
	egress_tell(t, status, 0, 0, reason);
	trip_free(t);
}

static void
egress_join(struct trip *t, struct stream *far)
{
	const struct relay_setup setup = {
		.loop = t->of->loop,
		.stream = take_ptr(&t->stream),
		.rates = {grant_rate(&t->grant, QUOTA_CALLER), grant_rate(&t->grant, QUOTA_NODE)},
		.ended = egress_on_ended,
		.arg = t,
	};

	t->of->joined++;
	stream_answer(setup.stream, 200, "");
	stream_join_init(&t->join, &setup, far);
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
	else
		egress_join(t, answer->stream);
}

static void
on_reset(void *arg, unsigned code)
{
	struct trip *t = arg;

	egress_tell(t, 0, 0, 0,
		code == STREAM_LOST ? "the node's connection was lost" : "the node has gone");
	trip_free(t);
}

static const struct stream_events stream_events = {.reset = on_reset};

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
		.service = stream_field_of(request, "edgeway-service"),
		.dest = stream_field_of(request, "edgeway-node"),
		.enforces =
			strcmp(stream_field_of(request, "edgeway-enforces"), ALLOW_FROM_KIND) == 0,
		.encrypted = strcmp(stream_field_of(request, "edgeway-encrypt"), "1") == 0,
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
	caller.hops = hops_parse(stream_field_of(request, HOPS_FIELD));
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
		stream_join_break(&t->join, grant_rules_changed);
	}
	return cut;
}

static const struct figure egress_figures[] = {
	FIGURE(struct egress, asked, "edgeway_hub_outward_total", "what=\"asked\"",
		"Connections that nodes asked the hub for, and those that were made.", NULL),
	FIGURE_ALSO(struct egress, joined, "what=\"joined\"", NULL),
	FIGURE(struct egress, limited, "edgeway_hub_outward_limited_total", NULL,
		"Connections refused: the node that asked, or the one of the endpoint, had as many "
		"as it may.",
		NULL),
	FIGURE(struct egress, n_trips, "edgeway_hub_outward_open", NULL,
		"Connections of nodes through the hub, now.", NULL),
};

void
egress_metrics(const struct egress *o, struct metrics *m)
{
	figures_metrics(FIGURES(egress_figures), o, m);
}
