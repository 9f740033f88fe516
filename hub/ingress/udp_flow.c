#include "hub/ingress/udp_maps_private.h"

#include <string.h>

#include "base/core/log.h"

static uint64_t
now_ms(const struct udp_map *m)
{
	return loop_now_ms(m->maps->config.loop);
}

static void
fill_caller(const struct udp_flow *f, struct caller *caller)
{
	const struct udp_map *m = udp_door_owner(f->door);

	caller_datagram(caller, &f->way.peer, f->way.hops, m->maps->config.guard);
}

const char *
udp_flow_caller(const struct udp_flow *f, char to[ACCESS_NAME_MAX + 8])
{
	const struct caller caller = {.addr = f->way.peer};

	return caller_text(&caller, to);
}

/* --- end of a flow -------------------------------------------------------------------------- */

static void
udp_flow_audit(const struct udp_trip *trip, unsigned status, const char *end)
{
	char caller[ACCESS_NAME_MAX + 8], target[2 * MESH_NODE_MAX + 64], why[CALLER_REASON_MAX];
	const struct udp_flow *f = trip->flow;
	const struct dgram_tally *t = &f->tally;
	auto_free char *line = xasprintf(
		"door=ingress.udp listen=%s caller=%s target=\"%s\" status=%u sent=%llu "
		"received=%llu datagrams_sent=%llu datagrams_received=%llu dropped=%llu ms=%llu "
		"end=\"%s\"",
		trip->map->listen, udp_flow_caller(f, caller),
		log_clean(target, sizeof target, trip->target != NULL ? trip->target : ""), status,
		(unsigned long long)t->to_stream.bytes, (unsigned long long)t->from_stream.bytes,
		(unsigned long long)t->to_stream.datagrams,
		(unsigned long long)t->from_stream.datagrams, (unsigned long long)dgram_dropped(t),
		(unsigned long long)(now_ms(trip->map) - f->started_ms),
		log_clean(why, sizeof why, end));

	/* Anybody may send from any source address: flows that are refused, or never begin, must
	 * not fill the log. */
	if (status == 200)
		log_info("audit", "%s", line);
	else if (status == UDP_FLOW_GONE)
		log_limited(LOG_LEVEL_INFO, 60, "audit", "%s", line);
	else
		log_limited(LOG_LEVEL_INFO, 60, "audit", "%s", line);
}

static void
on_over(void *arg, struct udp_flow *f, unsigned status, const char *why)
{
	struct udp_trip *t = f->own;

	(void)arg;
	udp_flow_audit(t, status, why);
	if (t->reaching != NULL)
		connector_cancel(&t->reaching);
	quota_give(&t->caller_account, now_ms(t->map));
	quota_give(&t->node_account, now_ms(t->map));
	free(t->where_text[0]);
	free(t->where_text[1]);
	free(t->target);
	free(t);
}

static void
udp_flow_refuse_status(struct udp_trip *t, unsigned status, const char *reason)
{
	enum dgram_drop why = status == 403 ? DROP_DENIED
		: status == 429             ? DROP_LIMIT
		: status == 508             ? DROP_LOOP
					    : DROP_UNREACHABLE;

	udp_flow_refuse(t->flow, why, status, reason);
}

/* --- bytes ---------------------------------------------------------------------------------- */

static struct rate *
rate_of(struct account *a)
{
	return a != NULL ? quota_rate(a) : NULL;
}

static bool
on_spend(void *arg, struct udp_flow *f, size_t n)
{
	const struct udp_trip *t = f->own;
	struct rate *rates[] = {rate_of(t->caller_account), rate_of(t->node_account)};
	uint64_t now = now_ms(arg);

	for (size_t i = 0; i < ARRAY_LEN(rates); i++)
		if (rates[i] != NULL && rate_room(rates[i], now) == 0)
			return false;
	for (size_t i = 0; i < ARRAY_LEN(rates); i++)
		if (rates[i] != NULL)
			rate_spend(rates[i], n);
	return true;
}

/* --- connecting ----------------------------------------------------------------------------- */

bool
udp_flow_allowed(const struct udp_flow *f)
{
	const struct udp_trip *t = f->own;
	struct caller caller;

	fill_caller(f, &caller);
	return acl_check(t->map->maps->config.access, &caller, &t->where);
}

/* NULL, or why it is not opened, with *status. */
static const char *
udp_flow_objection(struct udp_trip *t, const struct connector_answer *answer, unsigned *status)
{
	t->where = *answer->where;
	/* the same text as ns and host, routes.h */
	t->where_text[0] = xstrdup(answer->where->node);
	t->where_text[1] = xstrdup(answer->where->name);
	t->where.node = t->where.ns = t->where.host = t->where_text[0];
	t->where.name = t->where_text[1];
	*status = 403;
	if (!udp_flow_allowed(t->flow))
		return "the rules of access have changed";
	if (*answer->via == '\0')
		return NULL;
	t->node_account =
		quota_take(t->map->maps->config.quota, QUOTA_NODE, answer->via, now_ms(t->map));
	*status = 429;
	return t->node_account != NULL ? NULL : "the node has as many streams as it may";
}

static void
on_reached(void *arg, const struct connector_answer *answer)
{
	struct stream *stream = answer->stream;
	struct udp_trip *t = arg;
	unsigned status = answer->status;
	const char *why = answer->reason;

	t->reaching = NULL;
	t->target = xstrdup(answer->target);
	if (status == 200)
		why = udp_flow_objection(t, answer, &status);
	if (why == NULL) {
		udp_flow_join(t->flow, stream);
		return;
	}
	stream_close(&stream, STREAM_CANCELLED);
	udp_flow_refuse_status(t, status, why);
}

static void
on_begun(void *arg, struct udp_flow *f)
{
	char name[ACCESS_NAME_MAX + 8];
	struct udp_map *m = arg;
	const struct udp_maps_config *c = &m->maps->config;
	struct udp_trip *t = xcalloc(1, sizeof *t);
	struct caller caller;

	t->flow = f;
	t->map = m;
	f->own = t;
	fill_caller(f, &caller);
	t->caller_account =
		quota_take(c->quota, QUOTA_CALLER, caller_name(&caller, name), now_ms(m));
	if (t->caller_account == NULL)
		log_limited(LOG_LEVEL_WARN, 6, "ingress",
			"a caller has as many streams as ingress.limits.callerStreams allows "
			"caller=%s",
			name);
	t->reaching = connector_start(c->reach,
		&(struct connector_request){
			.caller = &caller,
			.host = m->host,
			.port = m->port,
			.dest = m->dest,
			.udp = true,
			.full = t->caller_account != NULL
				? NULL
				: "this caller has as many streams as it may",
		},
		on_reached, t);
}

const struct udp_door_events udp_map_events = {
	.begun = on_begun, .spend = on_spend, .over = on_over};
