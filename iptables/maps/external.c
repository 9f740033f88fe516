#include "iptables/maps/external.h"

#include <string.h>

#include "base/core/log.h"
#include "base/core/special_addr.h"
#include "iptables/host/held_ports.h"
#include "iptables/host/iface.h"
#include "iptables/host/own_interface.h"
#include "model/check.h"

/* --- addresses ------------------------------------------------------------------------------ */

/* Of the loopback network only the one that programs use. */
static bool
external_can_serve(const struct external *x, const struct own_address *a)
{
	const enum special_addr class = special_addr_class(&a->ip);
	const bool v4 = IN6_IS_ADDR_V4MAPPED(&a->ip);

	if (a->broadcast || (a->flags & IFF_UP) == 0 || (!v4 && x->subnet6.bits == 0) ||
		strcmp(a->interface, OWN_INTERFACE) == 0)
		return false;
	return class == SPECIAL_NONE ||
		(class == SPECIAL_LOOPBACK && v4 && ip_to_v4(&a->ip) == INADDR_LOOPBACK);
}

bool
external_addresses(struct external *x, const struct address_list *own)
{
	const struct in6_addr *last = NULL;
	struct buf now;
	bool same;

	buf_init(&now, BUF_UNLIMITED);
	for (size_t i = 0; i < own->n; i++) {
		const struct in6_addr *ip = &own->list[i].ip;

		if (!external_can_serve(x, &own->list[i]) || (last != NULL && ip_same(last, ip)))
			continue;
		buf_add(&now, ip, sizeof *ip);
		last = ip;
	}
	same = buf_len(&now) == buf_len(&x->addresses) &&
		(buf_len(&now) == 0 ||
			memcmp(buf_at(&now), buf_at(&x->addresses), buf_len(&now)) == 0);
	buf_fini(&x->addresses);
	x->addresses = now;
	return !same;
}

static void
external_each_own(const struct external *x, const struct service *s, const struct service_port *p,
	struct key k, external_fn *fn, void *arg)
{
	const struct in6_addr *own = (const void *)buf_at(&x->addresses);

	for (size_t i = 0; i < buf_len(&x->addresses) / sizeof *own; i++) {
		k.ip = own[i];
		fn(arg, s, p, &k);
	}
}

void
external_each(const struct external *x, const struct service *s, external_fn *fn, void *arg)
{
	if (!service_is_external(s))
		return;
	for (size_t i = 0; i < s->n_ports; i++) {
		const struct service_port *p = &s->ports[i];
		struct key k = {
			.port = p->port, .proto = p->mode == PORT_UDP ? IPPROTO_UDP : IPPROTO_TCP};

		if (p->extra)
			continue;
		for (size_t e = 0; e < s->n_external_ips; e++) {
			k.ip = s->external_ips[e];
			if (IN6_IS_ADDR_V4MAPPED(&k.ip) || x->subnet6.bits > 0)
				fn(arg, s, p, &k);
		}
		if (s->gateway)
			external_each_own(x, s, p, k, fn, arg);
		k.port = p->node_port;
		if (k.port != 0)
			external_each_own(x, s, p, k, fn, arg);
	}
}

/* --- what is served ------------------------------------------------------------------------- */

/* Is it an address of this node, or one that the service has outside? The node's may have gone. */
static bool
external_is_at(const struct external *x, const struct service *s, const struct in6_addr *ip)
{
	if (iface_addresses_have(&x->addresses, ip))
		return true;
	for (size_t i = 0; i < s->n_external_ips; i++)
		if (ip_same(&s->external_ips[i], ip))
			return true;
	return false;
}

/* By a service, as its fake IP or ClusterIP. */
static bool
external_is_inner(const struct external *x, const struct snapshot *now, const struct in6_addr *ip)
{
	if (!IN6_IS_ADDR_V4MAPPED(ip))
		return fake6_inner(&x->subnet6, ip) != 0 || snapshot_find_ip6(now, ip) != NULL;
	return (ip_to_v4(ip) & x->mask) == x->subnet || snapshot_find_ip(now, ip_to_v4(ip)) != NULL;
}

static bool
external_has_local(const struct service_port *p)
{
	for (size_t i = 0; i < service_port_most(p, true); i++)
		if ((p->endpoints[i].flags & ENDPOINT_LOCAL) != 0)
			return true;
	return false;
}

enum external_verdict
external_judge(const struct external *x, const struct snapshot *now, const struct service *s,
	const struct service_port *p, const struct key *k)
{
	const bool udp = p->mode == PORT_UDP;
	const struct service_port *other;

	if (!x->on || !external_is_at(x, s, &k->ip))
		return EXTERNAL_OFF;
	if (s->fake_ip == 0 && s->cluster_ip == 0)
		return EXTERNAL_NO_ADDRESS;
	if (snapshot_find_external(now, &k->ip, k->port, udp, &other) != s || other != p ||
		external_is_inner(x, now, &k->ip))
		return EXTERNAL_TAKEN;
	if (x->unknown || held_ports_has(&x->held, &k->ip, k->port, (uint8_t)k->proto))
		return EXTERNAL_HELD;
	if (udp && s->restricted)
		return EXTERNAL_RESTRICTED;
	if (udp && ip_is_loopback(&k->ip))
		return EXTERNAL_LOOPBACK;
	return s->external_local && !external_has_local(p) ? EXTERNAL_NOT_HERE : EXTERNAL_SERVED;
}

/* --- held ports ----------------------------------------------------------------------------- */

void
external_read_held(struct external *x)
{
	struct err err = {0};

	x->unknown = held_ports_read(&x->held, &err) < 0;
	if (x->unknown)
		log_limited(
			LOG_LEVEL_ERROR, 6, "iptables", "NodePorts are not served: %s", err.text);
}

/* --- words ---------------------------------------------------------------------------------- */

static const struct {
	const char *name, *text;
} verdicts[EXTERNAL_VERDICTS] = {
	[EXTERNAL_SERVED] = {"served", "served"},
	[EXTERNAL_OFF] = {"off", "mesh.nodePorts leaves it to another program, or is false"},
	[EXTERNAL_NO_ADDRESS] = {"no_address", "mesh.subnet has no address left for the service"},
	[EXTERNAL_TAKEN] = {"taken", "another service has the same address and port"},
	[EXTERNAL_HELD] = {"held", "a process of the node listens there"},
	[EXTERNAL_RESTRICTED] = {"restricted",
		"UDP of a service with restricted callers is not served outside"},
	[EXTERNAL_LOOPBACK] = {"loopback", "the kernel does not translate UDP from 127.0.0.1"},
	[EXTERNAL_NOT_HERE] = {"not_here",
		"externalTrafficPolicy is Local, and no endpoint is on this node"},
	[EXTERNAL_NO_ENDPOINT] = {"no_endpoint",
		"UDP without an endpoint that is reached from here"},
};

const char *
external_verdict_name(enum external_verdict v)
{
	return verdicts[v].name;
}

const char *
external_verdict_text(enum external_verdict v)
{
	return verdicts[v].text;
}
