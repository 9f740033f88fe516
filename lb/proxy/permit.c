#include "lb/proxy/permit.h"

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "lb/proxy/access_log.h"
#include "lb/proxy/dial.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/h2_client.h"
#include "lb/proxy/h2_stream.h"
#include "lb/proxy/h2_upstream.h"
#include "lb/proxy/pool.h"
#include "lb/proxy/proxy.h"
#include "lb/proxy/relay.h"
#include "model/local_callers.h"

static bool
permit_judge(const struct downstream *f, const struct service *s, uint64_t *closed)
{
	struct allow_caller who;

	local_callers_find(snapshot_callers(f->worker->snapshot), &f->client, &who);
	return service_permits(s, &who, closed);
}

bool
permit_backend(const struct downstream *f, const struct service *s, uint64_t *closed)
{
	return !s->restricted || permit_judge(f, s, closed);
}

/* Is an endpoint open, or are none closed? Else there is something else wrong with the service. */
static bool
permit_any_open(const struct group *g)
{
	return g->key.closed == 0 || balance_count(&g->balance) > 0 || g->port_of->n_endpoints == 0;
}

/* Moves the client to a group of the same service port that has only the endpoints open to this
 * client. */
static bool
permit_move(struct downstream *f, uint64_t closed)
{
	struct worker *w = f->worker;
	struct group *old = f->group, *g;
	struct group_key key = old->key;

	key.closed = closed;
	g = targets_group(w->targets, w->snapshot, w->epoch, &key);
	if (g == NULL)
		return false;
	f->group = g;
	group_unref(&old, w->now_ms);
	return true;
}

bool
permit_check(struct downstream *f)
{
	struct worker *w = f->worker;
	uint64_t closed = 0;

	targets_refresh(w->targets, f->group, w->snapshot, w->epoch);
	if (f->group->service == NULL ||
		(!f->group->service->restricted && f->group->key.closed == 0))
		return true;
	if (f->group->service->restricted && !permit_judge(f, f->group->service, &closed))
		return false;
	if (closed != f->group->key.closed && !permit_move(f, closed))
		return false;
	return permit_any_open(f->group);
}

void
permit_refused(const struct downstream *f, const struct service *s, uint16_t port,
	char reason[PERMIT_REASON_MAX])
{
	struct allow_caller who;
	const struct addr client = addr_of(&f->client, f->client_port);
	char text[ADDR_TEXT_MAX];

	local_callers_find(snapshot_callers(f->worker->snapshot), &f->client, &who);
	count(&f->worker->counters.denied, 1);
	count(&f->group->cell->failures, 1);
	addr_text(&client, text);
	snprintf(reason, PERMIT_REASON_MAX,
		"%s%s may not call service %s/%s port %u (edgeway.io/allow-from or a "
		"NetworkPolicy)",
		who.ns != NULL ? "a pod of namespace "
			       : "a process of the node, or a pod that the hub has not told of,",
		who.ns != NULL ? who.ns : "", s->namespace, s->name, port);
	log_limited(LOG_LEVEL_WARN, 10, "lb",
		"a call was denied client=%s namespace=%s service=%s/%s port=%u rule=\"%.200s\"",
		text, who.ns != NULL ? who.ns : "-", s->namespace, s->name, port,
		s->allow_text[0] != '\0' ? s->allow_text : "a NetworkPolicy");
}

/* --- open relays and requests --------------------------------------------------------------- */

static bool
permit_is_closed(const struct group *g, const struct target *t, uint64_t closed)
{
	const struct service_port *p = g->port_of;

	for (size_t i = 0; p != NULL && i < service_port_most(p, true); i++) {
		const struct endpoint *e = &p->endpoints[i];

		if (e->port == t->port && memcmp(&e->ip, &t->ip, sizeof e->ip) == 0 &&
			endpoint_is_closed(e, closed))
			return true;
	}
	return false;
}

/* The endpoint whose connection or session it has; NULL: it waits for one, dials, or has its
 * answer. */
static const struct target *
permit_in_use(const struct exchange *ex)
{
	const struct upstream_conn *b = ex->upstream;

	if (ex->h2 != NULL)
		return ex->h2->up != NULL ? ex->h2->target : NULL;
	return b != NULL && !b->connecting ? b->target : NULL;
}

/* Does it wait for, or dial, an endpoint that is closed? */
static bool
permit_seeks_closed(const struct exchange *ex, uint64_t closed)
{
	const struct group *g = ex->group;

	for (const struct upstream_conn *b = ex->upstream; b != NULL; b = b->rival)
		if (permit_is_closed(g, b->target, closed))
			return true;
	if (ex->h2 != NULL && ex->h2->target != NULL) /* which another request dials */
		return permit_is_closed(g, ex->h2->target, closed);
	return ex->waiter.lane != NULL && ex->upstream == NULL && closed != g->key.closed;
}

/* Its next attempt goes to an endpoint that is open. */
static void
permit_regroup(struct exchange *ex, uint64_t closed)
{
	struct worker *w = ex->downstream->worker;
	struct group_key key = ex->group->key;
	struct group *g;

	key.closed = closed;
	g = targets_hold(w->targets, w->snapshot, w->epoch, &key);
	if (g == NULL)
		return;
	fair_queue_leave(&ex->waiter); /* that of the former group */
	exchange_use(ex, g);
	group_release(&g, w->now_ms);
}

/* Nothing has been sent: it dials no closed endpoint any more, but another one if there is one. */
static void
permit_dial_another(struct exchange *ex, uint64_t closed)
{
	for (struct upstream_conn *b = ex->upstream, *next; b != NULL; b = next) {
		next = b->rival;
		if (permit_is_closed(ex->group, b->target, closed))
			upstream_conn_drop(b, exchange_is_relay(ex));
	}
	if (ex->h2 != NULL)
		h2_upstream_unwait(ex->h2);
	ex->free_retry = true;
	dial_resume(ex);
}

/* Brings a request or relay up to these closed gates. Returns false if its endpoint is closed, or
 * it wants one and all are. */
static bool
permit_goes_on(struct exchange *ex, uint64_t closed)
{
	const struct target *t = permit_in_use(ex);
	bool another = t == NULL && permit_seeks_closed(ex, closed);

	if (t != NULL && permit_is_closed(ex->group, t, closed))
		return false;
	if (closed != ex->group->key.closed)
		permit_regroup(ex, closed);
	if (!another)
		return true;
	if (!permit_any_open(ex->group))
		return false;
	permit_dial_another(ex, closed);
	return true;
}

/* May the client not call the Service that it called, or that to which a route has led it? If it
 * may, the request goes to open endpoints alone from now on, and may end by that. */
static bool
permit_denies(struct exchange *ex, char reason[PERMIT_REASON_MAX])
{
	const struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	const struct group *g = f->group;
	uint64_t closed = 0;

	targets_refresh(w->targets, ex->group, w->snapshot, w->epoch);
	if (g->service != NULL && g->service->restricted && !permit_judge(f, g->service, &closed)) {
		permit_refused(f, g->service, g->key.port, reason);
		return true;
	}
	g = ex->group;
	closed = 0;
	if (g->service == NULL || !g->service->restricted ||
		(permit_judge(f, g->service, &closed) && permit_goes_on(ex, closed)))
		return false;
	permit_refused(f, g->service, g->key.port, reason);
	return true;
}

static bool
permit_denies_stream(struct h2_stream *st, char *reason)
{
	return permit_denies(st->ex, reason);
}

void
permit_recheck(struct worker *w)
{
	char reason[PERMIT_REASON_MAX];

	if (snapshot_counts(w->snapshot)->restricted == 0)
		return;
	for (struct node *n = w->downstreams.next, *next; n != &w->downstreams; n = next) {
		struct downstream *f = container_of(n, struct downstream, node);

		next = n->next;
		if (f->ex == NULL && f->h2 == NULL)
			continue;
		targets_refresh(w->targets, f->group, w->snapshot, w->epoch);
		if (f->h2 != NULL) {
			h2_client_recheck(f, permit_denies_stream);
			continue;
		}
		if (!permit_denies(f->ex, reason))
			continue;
		if (f->state == DOWNSTREAM_RELAY) {
			relay_cut(f);
		} else {
			access_log_end(f->ex, "PR");
			downstream_close(f, true);
		}
	}
}
