#include "tunnel/node/dial_target.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char not_here[] = "this node has no such address";

/* IPv4 as ::ffff:a.b.c.d */
static struct in6_addr
to_v6(const struct addr *a)
{
	struct in6_addr v6 = {0};

	if (a->sa.sa_family == AF_INET6)
		return a->in6.sin6_addr;
	v6.s6_addr[10] = v6.s6_addr[11] = 0xff;
	memcpy(&v6.s6_addr[12], &a->in.sin_addr, 4);
	return v6;
}

static bool
on_net(const struct addr *a, const struct ground_net *net)
{
	struct in6_addr x = to_v6(a), y = to_v6(&net->addr);
	unsigned bits = net->bits + (net->addr.sa.sa_family == AF_INET ? 96 : 0);
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(&x, &y, whole) != 0)
		return false;
	return rest == 0 || ((x.s6_addr[whole] ^ y.s6_addr[whole]) >> (8 - rest)) == 0;
}

static bool
is_loopback(const struct addr *a)
{
	struct in6_addr v6 = to_v6(a);

	return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

static bool
is_link_local(const struct addr *a)
{
	struct in6_addr v6 = to_v6(a);

	return IN6_IS_ADDR_LINKLOCAL(&v6) ||
		(IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 169 && v6.s6_addr[13] == 254);
}

static void
dial_target_add(struct dial_target *to, const struct addr *a, uint16_t port)
{
	struct addr *at = &to->addrs[to->n_addrs];

	if (to->n_addrs == DIAL_TARGET_ADDRS_MAX)
		return;
	*at = *a;
	if (at->sa.sa_family == AF_INET)
		at->in.sin_port = htons(port);
	else
		at->in6.sin6_port = htons(port);
	to->n_addrs++;
}

/* Loopback first: programs that listen only there belong to the node as well. Addresses on bridges
 * come last. */
static void
add_node(const struct ground *g, uint16_t port, struct dial_target *to)
{
	struct addr loopback = addr_ipv4(INADDR_LOOPBACK, port);

	to->kind = TUNNEL_ACL_NODE;
	dial_target_add(to, &loopback, port);
	for (int bridges = 0; bridges < 2; bridges++)
		for (size_t i = 0; i < g->n_nets; i++) {
			const struct ground_net *net = &g->nets[i];

			if (net->bridge == (bridges == 1) && !is_loopback(&net->addr) &&
				!is_link_local(&net->addr))
				dial_target_add(to, &net->addr, port);
		}
}

/* The service's endpoint with this address; NULL: none. local: on this node; else on the node
 * `meant`. */
static const struct endpoint *
find_endpoint(const struct service *s, const struct dial_target_request *r, const struct addr *a,
	bool local)
{
	bool any = local || strcmp(r->meant, REACHABLE_NETS_ANY) == 0;
	const struct in6_addr ip = to_v6(a);

	for (unsigned p = 0; p < s->n_ports; p++) {
		const struct service_port *port = &s->ports[p];

		if ((port->mode == PORT_UDP) != r->udp)
			continue;
		for (unsigned i = 0; i < port->n_endpoints; i++) {
			const struct endpoint *e = &port->endpoints[i];

			if (((e->flags & ENDPOINT_LOCAL) != 0) == local &&
				endpoint_is_at(e, &ip, addr_port(a)) &&
				(any || strcmp(r->meant, e->node) == 0))
				return e;
		}
	}
	return NULL;
}

static const struct service *
find_service(const struct ground *g, const char *service)
{
	const char *slash = strchr(service, '/');

	if (slash == NULL || g->snapshot == NULL)
		return NULL;
	return snapshot_find(
		g->snapshot, service, (size_t)(slash - service), slash + 1, strlen(slash + 1));
}

/* The pod's address of the other family, in case that it refuses the one asked for. */
static void
add_other(const struct endpoint *e, const struct in6_addr *asked, struct dial_target *to)
{
	bool second = memcmp(&e->ip, asked, sizeof *asked) == 0;
	const struct endpoint other = {.ip = second ? e->other : e->ip};
	const struct addr a = endpoint_addr(&other);

	dial_target_add(to, &a, e->port);
}

static unsigned
find_here(const struct ground *g, const struct addr *a, const struct dial_target_request *r,
	struct dial_target *to)
{
	const struct service *s = find_service(g, r->service);
	const struct endpoint *e = s != NULL ? find_endpoint(s, r, a, true) : NULL;
	const struct in6_addr ip = to_v6(a);
	bool own = is_loopback(a) || address_list_has(g->own, &ip), pod = false;

	for (size_t i = 0; i < g->n_nets; i++)
		pod |= g->nets[i].bridge && on_net(a, &g->nets[i]);
	/* An address of the node itself is the node, unless a pod of the host's network has it. */
	if (e != NULL && (!own || (e->flags & ENDPOINT_HOST_NETWORK) != 0))
		to->kind = TUNNEL_ACL_SERVICES;
	else if (own)
		to->kind = TUNNEL_ACL_NODE;
	else if (pod)
		to->kind = TUNNEL_ACL_PODS;
	else
		return 404;
	dial_target_add(to, a, addr_port(a));
	if (to->kind == TUNNEL_ACL_SERVICES && endpoint_has_other(e) && !r->udp)
		add_other(e, &ip, to);
	return 0;
}

/* A machine other than this node. If the hub names another node, but the address is this node's
 * own, tunnel.allow must not be bypassed. */
static unsigned
find_beside(const struct ground *g, const struct addr *a, const struct dial_target_request *r,
	struct dial_target *to, const char **reason)
{
	struct reachable_nets_ask beside = {
		.meant = r->meant, .ip = to_v6(a), .port = addr_port(a)};
	bool any = strcmp(r->meant, REACHABLE_NETS_ANY) == 0;
	const struct service *s = find_service(g, r->service);
	const struct endpoint *e = s != NULL ? find_endpoint(s, r, a, false) : NULL;
	unsigned here = find_here(g, a, r, to);

	if (here == 0 && !any) {
		to->n_addrs = 0;
		*reason = "here this address is of this node itself, or of its pods";
		return 404;
	}
	if (here == 0)
		return 0;
	to->kind = TUNNEL_ACL_BESIDE;
	/* The port of a pod on that machine; an EndpointSlice alone opens no port that tunnel.reach
	 * does not open. */
	if (e != NULL && e->via == VIA_HOST) {
		to->kind = TUNNEL_ACL_SERVICES;
		beside.port = 0;
	}
	*reason = reachable_nets_check(g->vicinity, &beside);
	if (*reason != NULL)
		return 403;
	dial_target_add(to, a, addr_port(a));
	return 0;
}

/* Parses a name and a port. */
static unsigned
find_name(
	const struct ground *g, const char *authority, struct dial_target *to, const char **reason)
{
	const char *colon = strrchr(authority, ':');
	unsigned port = 0;
	size_t n;

	if (colon == NULL || colon == authority || strchr(authority, ':') != colon ||
		colon[1] == '\0' || strlen(colon + 1) > 5 ||
		colon[1 + strspn(colon + 1, "0123456789")] != '\0' ||
		sscanf(colon + 1, "%u", &port) != 1 || port == 0 || port > UINT16_MAX) {
		*reason = "the target must be host:port";
		return 400;
	}
	n = (size_t)(colon - authority);
	if (strlen(g->node) != n || strncasecmp(g->node, authority, n) != 0) {
		*reason = "this is another node";
		return 404;
	}
	add_node(g, (uint16_t)port, to);
	return 0;
}

unsigned
dial_target_find(const struct ground *g, const struct dial_target_request *r,
	struct dial_target *to, const char **reason)
{
	bool beside = r->meant[0] != '\0';
	struct addr a;

	to->n_addrs = 0;
	if (strncmp(r->authority, "unix:", 5) == 0 || addr_parse(&a, r->authority, 0, NULL) < 0) {
		*reason = "a machine beside this node is asked for by its address";
		return beside ? 400 : find_name(g, r->authority, to, reason);
	}
	if (addr_port(&a) == 0) {
		*reason = "the target must be host:port";
		return 400;
	}
	*reason = not_here;
	return beside ? find_beside(g, &a, r, to, reason) : find_here(g, &a, r, to);
}

unsigned
dial_target_permit(struct dial_target *t, const struct tunnel_acl *allow, const char **reason)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n_addrs; i++)
		if (tunnel_acl_check(allow, t->kind, &t->addrs[i], reason))
			t->addrs[kept++] = t->addrs[i];
	if (kept == 0)
		return 403;
	t->n_addrs = kept;
	return 0;
}
