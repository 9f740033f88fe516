#include "hub/ingress/udp_maps_private.h"

#include <string.h>

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
	/* Anybody may send from any source address: flows that are refused, or never begin, must
	 * not fill the log. */
	static struct log_limit gone, refused;
	char caller[ACCESS_NAME_MAX + 8];
	const struct udp_flow *f = trip->flow;

	grant_audit(trip->map->maps->config.grants,
		&(struct audit){
			.door = "ingress.udp",
			.listen = trip->map->listen,
			.caller = udp_flow_caller(f, caller),
			.target = trip->target,
			.status = status,
			.datagrams = &f->tally,
			.since_ms = f->started_ms,
			.end = end,
			.limit = status == 200            ? NULL
				: status == UDP_FLOW_GONE ? &gone
							  : &refused,
		});
}

static void
on_over(void *arg, struct udp_flow *f, unsigned status, const char *why)
{
	struct udp_trip *t = f->own;

	(void)arg;
	udp_flow_audit(t, status, why);
	if (t->reaching != NULL)
		connector_cancel(&t->reaching);
	grant_end(&t->grant);
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

static bool
on_spend(void *arg, struct udp_flow *f, size_t n)
{
	const struct udp_trip *t = f->own;

	(void)arg;
	if (grant_room(&t->grant) == 0)
		return false;
	grant_spend(&t->grant, n);
	return true;
}

/* --- connecting ----------------------------------------------------------------------------- */

bool
udp_flow_revoked(const struct udp_flow *f)
{
	struct udp_trip *t = f->own;
	struct caller caller;

	fill_caller(f, &caller);
	return grant_revoked(&t->grant, &caller);
}

static void
on_reached(void *arg, struct connector_answer *answer)
{
	struct udp_trip *t = arg;
	struct caller caller;

	fill_caller(t->flow, &caller);
	connector_grant(answer, &t->grant, &caller);
	t->reaching = NULL;
	t->target = xstrdup(answer->target);
	if (answer->status == 200)
		udp_flow_join(t->flow, answer->stream);
	else
		udp_flow_refuse_status(t, answer->status, answer->reason);
}

static void
on_begun(void *arg, struct udp_flow *f)
{
	struct udp_map *m = arg;
	const struct udp_maps_config *c = &m->maps->config;
	struct udp_trip *t = xcalloc(1, sizeof *t);
	struct caller caller;

	t->flow = f;
	t->map = m;
	f->own = t;
	fill_caller(f, &caller);
	t->reaching = connector_start(c->reach,
		&(struct connector_request){
			.caller = &caller,
			.host = m->host,
			.port = m->port,
			.dest = m->dest,
			.names = m->names,
			.udp = true,
			.full = grant_take(&t->grant, c->grants, &caller),
		},
		on_reached, t);
}

const struct udp_door_events udp_map_events = {
	.begun = on_begun, .spend = on_spend, .over = on_over};
