#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "hub/routing/routes_private.h"
#include "model/check.h"

enum { SITES_SHOWN = 8 };

bool
routes_at_edge(const struct routes_finder *f, const char *node)
{
	if (*node == '\0')
		return false;
	return f->config.at_edge(f->config.arg, node) ||
		(f->config.neighbours != NULL && neighbours_stand_for(f->config.neighbours, node));
}

bool
routes_has_neighbour(const struct routes_finder *f, const char *node)
{
	struct neighbours_ask ask = {.node = node};
	struct neighbours_way way;
	const char *why;

	return f->config.neighbours != NULL &&
		neighbours_find(f->config.neighbours, &ask, &way, 1, &why) > 0;
}

void
routes_set_beside(struct way *way, const char *host, uint16_t port)
{
	if (*host == '\0' || port == 0)
		return;
	snprintf(way->neighbour_authority, sizeof way->neighbour_authority,
		strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, port);
}

/* Makes room for `n` routes at `at`; returns how many fit. */
static size_t
make_room(struct routes *w, size_t at, size_t n)
{
	size_t room = MIN(n, ROUTES_MAX + ROUTES_BESIDE_MAX - at), keep = w->n - at;

	keep = MIN(keep, ROUTES_MAX + ROUTES_BESIDE_MAX - at - room);
	memmove(&w->list[at + room], &w->list[at], keep * sizeof w->list[0]);
	w->n = at + room + keep;
	return room;
}

/* Removes the routes that were inserted after `at` before, for this node. */
static void
take_back(struct routes *w, size_t at, const char *node)
{
	size_t end = at + 1;

	while (end < w->n && strcmp(w->list[end].final_node, node) == 0)
		end++;
	memmove(&w->list[at + 1], &w->list[end], (w->n - end) * sizeof w->list[0]);
	w->n -= end - at - 1;
}

static void
routes_beside_put(struct routes *w, size_t at, const struct way *like,
	const struct neighbours_way *found, size_t n)
{
	n = make_room(w, at, n);
	for (size_t i = 0; i < n; i++) {
		struct way *way = &w->list[at + i];

		memset(way, 0, sizeof *way);
		snprintf(way->node, sizeof way->node, "%s", found[i].via);
		snprintf(way->authority, sizeof way->authority, "%s", like->neighbour_authority);
		snprintf(way->final_node, sizeof way->final_node, "%s", like->node);
		way->neighbour = found[i];
	}
}

size_t
routes_beside(struct routes_finder *f, struct routes *w, size_t at, const char **why)
{
	struct way own = w->list[at]; /* a copy: the list moves */
	struct neighbours_way found[ROUTES_BESIDE_MAX];
	struct neighbours_ask ask = {.node = own.node};
	size_t n;

	*why = NULL;
	if (f->config.neighbours == NULL || own.node[0] == '\0' || own.final_node[0] != '\0' ||
		f->config.tunnelled(f->config.arg, own.node))
		return 0;
	if (w->service[0] == '\0' && own.neighbour_authority[0] != '\0')
		ask.port = w->target.port;
	n = neighbours_find(f->config.neighbours, &ask, found, ROUTES_BESIDE_MAX, why);
	if (w->encrypted) {
		if (n > 0)
			*why = "its neighbours dial it in clear text, which mesh.encrypt or "
			       "edgeway.io/encrypt forbids";
		return 0;
	}
	if (own.neighbour_authority[0] == '\0') {
		if (n > 0)
			*why = "its neighbours do not reach a pod at the pod's own address, only "
			       "at a port of its host";
		return 0;
	}
	take_back(w, at, own.node);
	routes_beside_put(w, at + 1, &own, found, n);
	return n;
}

/* --- addresses of no object ----------------------------------------------------------------- */

static unsigned
routes_beside_ambiguous(
	struct routes *w, const char *host, const struct neighbours_site *sites, size_t n)
{
	size_t shown = MIN(n, (size_t)SITES_SHOWN), at;

	routes_refuse(w, 421, "%s is declared in %zu sites:", host, n);
	for (size_t i = 0; i < shown; i++) {
		at = strlen(w->reason);
		snprintf(w->reason + at, sizeof w->reason - at, "%s %s (by node %s)",
			i > 0 ? "," : "", sites[i].site, sites[i].via);
	}
	at = strlen(w->reason);
	snprintf(w->reason + at, sizeof w->reason - at,
		"; say X-Tunnel-Proxy-Host: NODE and X-Tunnel-Proxy-Dest: ADDRESS:PORT");
	return 421;
}

/* Through the site's neighbours or, if `node` is set, through that node. */
static unsigned
to_declared(struct routes_finder *f, const struct neighbours_ask *ask, const char *node,
	struct routes *w)
{
	struct neighbours_way found[ROUTES_BESIDE_MAX];
	struct way like = {.node = REACHABLE_NETS_ANY};
	char host[INET6_ADDRSTRLEN];
	const char *why = NULL;
	size_t n = 1;

	if (IN6_IS_ADDR_V4MAPPED(&ask->ip))
		inet_ntop(AF_INET, &ask->ip.s6_addr[12], host, sizeof host);
	else
		inet_ntop(AF_INET6, &ask->ip, host, sizeof host);
	routes_set_target(w, TARGET_SITE, host, ask->site);
	if (node != NULL)
		snprintf(found[0].via, sizeof found[0].via, "%s", node);
	else
		n = neighbours_find(f->config.neighbours, ask, found, ROUTES_BESIDE_MAX, &why);
	if (n == 0)
		return routes_refuse(w, 503, "%s: %s", host, why != NULL ? why : "no way to it");
	if (node != NULL)
		found[0].entry = REACHABLE_NETS_MAX;
	routes_set_beside(&like, host, ask->port);
	routes_beside_put(w, 0, &like, found, n);
	return 0;
}

unsigned
routes_to_site(
	struct routes_finder *f, const char *host, const struct in6_addr *ip, struct routes *w)
{
	struct neighbours_site sites[SITES_SHOWN];
	struct neighbours_ask ask = {
		.node = REACHABLE_NETS_ANY, .site = "", .ip = *ip, .port = w->target.port};
	size_t n = 0;

	if (f->config.neighbours != NULL)
		n = neighbours_sites(f->config.neighbours, ip, sites, SITES_SHOWN);
	if (n == 0)
		return 404;
	if (n > 1)
		return routes_beside_ambiguous(w, host, sites, n);
	ask.site = sites[0].site;
	return to_declared(f, &ask, NULL, w);
}

bool
routes_declares(struct routes_finder *f, const char *node, const char *other)
{
	const char *site;

	return f->config.neighbours != NULL &&
		neighbours_declares(
			f->config.neighbours, node, &(struct neighbours_ask){.node = other}, &site);
}

bool
routes_to_declared(
	struct routes_finder *f, const char *node, const struct in6_addr *ip, struct routes *w)
{
	struct neighbours_ask ask = {.node = REACHABLE_NETS_ANY, .ip = *ip, .port = w->target.port};

	if (f->config.neighbours == NULL ||
		!neighbours_declares(f->config.neighbours, node, &ask, &ask.site))
		return false;
	to_declared(f, &ask, node, w);
	return true;
}
