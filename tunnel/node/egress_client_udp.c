#include "tunnel/node/egress_client_udp_private.h"

#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"

/* --- ports ---------------------------------------------------------------------------------- */

static uint64_t
hash_of(const struct service *s, uint16_t number)
{
	uint64_t hash = hash64(s->namespace, strlen(s->namespace), number);

	return hash64(s->name, strlen(s->name), hash);
}

static struct egress_client_port *
egress_client_udp_find(const struct egress_client_udp *u, const struct service *s, uint16_t number)
{
	for (struct table_node *n = table_first(&u->ports, hash_of(s, number)); n != NULL;
		n = table_next(n)) {
		struct egress_client_port *p = container_of(n, struct egress_client_port, node);

		if (p->port->port == number && strcmp(p->service->name, s->name) == 0 &&
			strcmp(p->service->namespace, s->namespace) == 0)
			return p;
	}
	return NULL;
}

static void
egress_client_udp_touch(struct egress_client_port *p, bool stale)
{
	p->stale = stale;
	if (p->is_touched)
		return;
	p->is_touched = true;
	TAILQ_INSERT_TAIL(&p->of->touched, p, touched);
}

static void
egress_client_udp_want(
	struct egress_client_udp *u, const struct service *s, const struct service_port *port)
{
	struct egress_client_port *p = egress_client_udp_find(u, s, port->port);
	struct service *before;

	if (p == NULL) {
		p = xcalloc(1, sizeof *p);
		p->of = u;
		table_add(&u->ports, &p->node, hash_of(s, port->port));
	}
	before = p->service;
	p->service = service_ref(s);
	p->port = port;
	service_unref(&before);
	egress_client_udp_touch(p, false);
}

static void
on_change(void *arg, const struct service *old, const struct service *now)
{
	struct egress_client_udp *u = arg;

	for (unsigned i = 0; old != NULL && u->ports.n > 0 && i < old->n_ports; i++) {
		struct egress_client_port *p = old->ports[i].mode == PORT_UDP
			? egress_client_udp_find(u, old, old->ports[i].port)
			: NULL;

		if (p != NULL)
			egress_client_udp_touch(p, true);
	}
	for (unsigned i = 0; now != NULL && i < now->n_ports; i++)
		if (choice_needs_hub(&now->ports[i]))
			egress_client_udp_want(u, now, &now->ports[i]);
}

void
egress_client_udp_use(
	struct egress_client_udp *u, const struct snapshot *old, const struct snapshot *now)
{
	struct egress_client_port *p = NULL;
	size_t slot = 0;

	snapshot_diff(old, now, on_change, u);
	if (snapshot_callers(now) == u->callers)
		return;
	local_callers_unref(&u->callers);
	u->callers = local_callers_ref(snapshot_callers(now));
	while ((p = egress_client_udp_next(u, &slot, p)) != NULL)
		if (p->service->restricted)
			egress_client_udp_touch(p, p->stale);
}

/* --- bound sockets -------------------------------------------------------------------------- */

static void
close_door(struct egress_client_port *p, const char *why)
{
	struct dgram_tally t;

	if (p->door == NULL)
		return;
	t = udp_door_tally(p->door);
	dgram_tally_add(&p->of->past, &t);
	udp_door_close(&p->door, why);
}

static void
port_free(struct egress_client_port *p, const char *why)
{
	close_door(p, why);
	if (p->is_touched)
		TAILQ_REMOVE(&p->of->touched, p, touched);
	table_remove(&p->of->ports, &p->node);
	service_unref(&p->service);
	free(p);
}

static void
open_door(struct egress_client_port *p)
{
	struct egress_client_udp *u = p->of;
	const struct addr any_port = addr_ipv4(u->address, 0);
	struct err err = {0};

	if (u->buffer == NULL)
		u->buffer = xmalloc(DGRAM_BUFFER);
	if (udp_door_open(&(struct udp_door_setup){.loop = u->config.loop,
				  .listen = &any_port,
				  .buffer = u->buffer,
				  .idle_ms = u->config.idle_ms,
				  .events = &outlet_udp_events,
				  .arg = p},
		    &p->door, &err) < 0)
		log_limited(LOG_LEVEL_ERROR, 6, "tunnel",
			"a UDP port is not served through the hub service=%s/%s port=%u "
			"error=\"%s\"",
			p->service->namespace, p->service->name, p->port->port, err.text);
}

uint16_t
egress_client_udp_door(
	struct egress_client_udp *u, const struct service *s, const struct service_port *port)
{
	struct egress_client_port *p = egress_client_udp_find(u, s, port->port);

	if (p == NULL || p->stale || u->address == 0)
		return 0;
	if (p->door == NULL && !u->draining)
		open_door(p);
	return p->door != NULL ? udp_door_port(p->door) : 0;
}

void
egress_client_udp_settle(struct egress_client_udp *u)
{
	struct egress_client_port *p;

	while ((p = TAILQ_FIRST(&u->touched)) != NULL) {
		TAILQ_REMOVE(&u->touched, p, touched);
		p->is_touched = false;
		if (p->stale)
			port_free(p, "the service needs no way through the hub any more");
		else if (p->door != NULL)
			egress_client_flows_settle(p);
	}
}

struct egress_client_port *
egress_client_udp_next(
	const struct egress_client_udp *u, size_t *slot, const struct egress_client_port *p)
{
	struct table_node *n = table_walk(&u->ports, slot, p != NULL ? &p->node : NULL);

	return n != NULL ? container_of(n, struct egress_client_port, node) : NULL;
}

void
egress_client_udp_listen(struct egress_client_udp *u, uint32_t address)
{
	struct egress_client_port *p = NULL;
	size_t slot = 0;

	if (address == u->address)
		return;
	u->address = address;
	while ((p = egress_client_udp_next(u, &slot, p)) != NULL)
		close_door(p, "the mesh has another address");
}

void
egress_client_udp_drain(struct egress_client_udp *u)
{
	struct egress_client_port *p = NULL;
	size_t slot = 0;

	u->draining = true;
	while ((p = egress_client_udp_next(u, &slot, p)) != NULL)
		if (p->door != NULL)
			udp_door_drain(p->door);
}

/* --- life ----------------------------------------------------------------------------------- */

struct egress_client_udp *
egress_client_udp_new(const struct egress_client_udp_config *config)
{
	struct egress_client_udp *u = xcalloc(1, sizeof *u);

	u->config = *config;
	TAILQ_INIT(&u->touched);
	random_bytes(&u->seed, sizeof u->seed);
	ingress_interface_init(&u->arrival, config->interfaces);
	return u;
}

void
egress_client_udp_free(struct egress_client_udp **out)
{
	struct egress_client_udp *u = take_ptr(out);
	struct egress_client_port *p;
	size_t slot = 0;

	if (u == NULL)
		return;
	while ((p = egress_client_udp_next(u, &slot, NULL)) != NULL) {
		port_free(p, "the agent stops");
		slot = 0;
	}
	local_callers_unref(&u->callers);
	ingress_interface_fini(&u->arrival);
	table_fini(&u->ports);
	free(u->buffer);
	free(u);
}
