#include "tunnel/node/egress_client_udp_private.h"

#include <string.h>

#include "base/core/hash.h"
#include "base/core/hops.h"
#include "base/core/log.h"

static void egress_client_udp_flow_ask(struct egress_client_flow *t);

static uint64_t
now_ms(const struct egress_client_port *p)
{
	return loop_now_ms(p->of->config.loop);
}

/* With session affinity a client has one endpoint, otherwise each of its flows has one. The key is
 * the same after a restart, and on other nodes. */
static uint64_t
key_of(const struct egress_client_flow *t)
{
	const struct flow_key *client = &t->flow->entry.key;
	uint8_t bytes[sizeof client->client + sizeof client->port];
	bool by_client = t->port->service->lb.affinity_s > 0;

	memcpy(bytes, &client->client, sizeof client->client);
	memcpy(bytes + sizeof client->client, &client->port, sizeof client->port);
	return hash64(bytes, by_client ? sizeof client->client : sizeof bytes, 0);
}

static void
egress_client_udp_flow_refuse(struct egress_client_flow *t, unsigned status, const char *why)
{
	udp_flow_refuse(t->flow,
		status == 403           ? DROP_DENIED
			: status == 429 ? DROP_LIMIT
			: status == 508 ? DROP_LOOP
					: DROP_UNREACHABLE,
		status, why);
}

static void
on_reached(void *arg, struct stream *stream, unsigned status, const char *why)
{
	struct egress_client_flow *t = arg;

	if (stream != NULL) {
		t->port->of->opened++;
		udp_flow_join(t->flow, stream);
		return;
	}
	t->trip = NULL;
	if (status == 0) {
		egress_client_udp_flow_refuse(t, 503, why);
		return;
	}
	choice_failed(&t->port->ill, &t->tried[t->n_tried - 1], now_ms(t->port));
	if (status == 403 || status == 429 || status == 508 ||
		t->n_tried == EGRESS_CLIENT_UDP_TRIES)
		egress_client_udp_flow_refuse(t, status, why);
	else
		egress_client_udp_flow_ask(t);
}

/* Requests the best endpoint that was not tried yet. */
static void
egress_client_udp_flow_ask(struct egress_client_flow *t)
{
	const struct choice_ask wanted = {.key = key_of(t),
		.tried = t->tried,
		.n_tried = t->n_tried,
		.ill = &t->port->ill,
		.now_ms = now_ms(t->port)};
	const struct service *s = t->port->service;
	const struct endpoint *e = choice_pick(t->port->port, &wanted);
	struct egress_client_ask q;

	if (e == NULL) {
		egress_client_udp_flow_refuse(t, 503, "no endpoint could be reached");
		return;
	}
	t->tried[t->n_tried++] = (struct choice_place){e->ip, e->port};
	egress_client_ask_of(t->port->of->config.outlet, &q, s, e, t->flow->way.hops + 1);
	t->trip = egress_client_reach(t->port->of->config.outlet, &q, on_reached, t);
	if (t->trip == NULL)
		egress_client_udp_flow_refuse(t, 429, "too many connections are open");
}

static void
flow_refuse_loop(struct egress_client_flow *t)
{
	const struct service *s = t->port->service;

	log_limited(LOG_LEVEL_WARN, 6, "tunnel",
		"dropped datagrams that go round: they have passed through Edgeway as often as "
		"they may; an endpoint of this service, or of one on the way, leads back here "
		"service=%s/%s port=%u",
		s->namespace, s->name, t->port->port->port);
	egress_client_udp_flow_refuse(t, 508, HOPS_REASON);
}

static bool
on_comes(void *arg, const struct pktinfo_way *way)
{
	struct egress_client_port *p = arg;

	return ingress_interface_ok(&p->of->arrival, way->arrived, now_ms(p));
}

static unsigned *
share_of(struct egress_client_udp *u, const struct flow_key *key)
{
	return &u->of_clients[hash64(&key->client, sizeof key->client, u->seed) %
		EGRESS_CLIENT_UDP_CLIENTS];
}

/* The kernel redirects only permitted callers here, but anybody in a pod can send to the bound
 * socket directly. */
static bool
may_call(const struct egress_client_port *p, const struct udp_flow *f)
{
	struct allow_caller who;

	if (!p->service->restricted)
		return true;
	local_callers_find(p->of->callers, &f->entry.key.client, &who);
	return service_permits_all(p->service, p->port, &who);
}

static void
on_begun(void *arg, struct udp_flow *f)
{
	struct egress_client_port *p = arg;
	struct egress_client_flow *t = xcalloc(1, sizeof *t);

	t->port = p;
	t->flow = f;
	t->share = share_of(p->of, &f->entry.key);
	f->own = t;
	++*t->share;
	if (p->of->n_flows++ >= EGRESS_CLIENT_UDP_FLOWS)
		egress_client_udp_flow_refuse(t, 429, "too many flows");
	else if (!may_call(p, f))
		egress_client_udp_flow_refuse(
			t, 403, "edgeway.io/allow-from or a NetworkPolicy keeps this caller out");
	else if (*t->share > EGRESS_CLIENT_UDP_SHARE)
		egress_client_udp_flow_refuse(t, 429, "too many flows of one client");
	else if (f->way.hops >= HOPS_MAX)
		flow_refuse_loop(t);
	else
		egress_client_udp_flow_ask(t);
}

static void
on_over(void *arg, struct udp_flow *f, unsigned status, const char *why)
{
	struct egress_client_port *p = arg;
	struct egress_client_flow *t = f->own;

	(void)why;
	if (status == 200 && f->refusal == DROP_UNREACHABLE) /* nobody listens there */
		choice_failed(&p->ill, &t->tried[t->n_tried - 1], now_ms(p));
	p->of->n_flows--;
	--*t->share;
	egress_client_leave(&t->trip);
	free(t);
}

const struct udp_door_events outlet_udp_events = {
	.comes = on_comes, .begun = on_begun, .over = on_over};

void
egress_client_flows_settle(struct egress_client_port *p)
{
	struct udp_flow *f, *next;

	for (f = udp_door_next(p->door, NULL); f != NULL; f = next) {
		const struct egress_client_flow *t = f->own;

		next = udp_door_next(p->door, f);
		if (t == NULL)
			continue;
		if (!may_call(p, f))
			udp_flow_end(f, "its client may not call the service any more");
		else if (t->n_tried > 0 && !choice_has(p->port, &t->tried[t->n_tried - 1]))
			udp_flow_end(f, "its endpoint is gone");
	}
}
