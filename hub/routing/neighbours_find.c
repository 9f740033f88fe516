#include "hub/routing/neighbours_private.h"

#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "model/check.h"

enum { CANDIDATES_MAX = 64 };

/* True if the hub dials this address itself. Where Nodes name sites, this does not exclude a node:
 * the machine that the hub would find at the address may be a different one. */
static bool
is_ours(const struct neighbours *n, const struct in6_addr *ip)
{
	return n->config.ours != NULL && n->config.ours(n->config.arg, ip);
}

static struct in6_addr
address_of(const struct neighbours *n, const char *node)
{
	struct in6_addr ip = {0};

	ip_parse(cluster_node_address(n->config.cluster, node), &ip);
	return ip;
}

/* The entry by which the neighbour covers the target; -1: none, and *why may name an entry that
 * almost does. */
static int
entry_for(const struct neighbours *n, const struct neighbour *b, const struct neighbours_ask *ask,
	const char **why)
{
	int found = -1;

	for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++) {
		const struct reachable_nets_entry *e = &b->vicinity->list[i];

		if (b->wrong[i] != NULL || !reachable_nets_covers(e, ask->node, &ask->ip))
			continue;
		if (ask->port != 0 && !reachable_nets_opens(e, ask->port))
			*why = "no neighbour's tunnel.reach opens this port";
		else if (found < 0 || b->failed_ms[i] < b->failed_ms[found])
			found = (int)i;
	}
	if (strcmp(ask->node, REACHABLE_NETS_ANY) == 0)
		return strcmp(b->site, ask->site) == 0 ? found : -1;
	return found >= 0 && neighbours_objection(n, b, ask->node) != NULL ? -1 : found;
}

/* Only neighbours of the target's site are candidates. */
static struct table_node *
first_of_site(const struct neighbours *n, const struct neighbours_ask *ask)
{
	bool any = strcmp(ask->node, REACHABLE_NETS_ANY) == 0;

	return table_first(
		&n->sites_of, neighbours_hash(any ? ask->site : neighbours_site_of(n, ask->node)));
}

struct candidate {
	const struct neighbour *by;
	unsigned entry, streams;
};

/* First those that worked last, then those whose failure is oldest; among equals, the one with
 * fewer streams. */
static int
neighbours_find_compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	uint64_t x_ms = x->by->failed_ms[x->entry], y_ms = y->by->failed_ms[y->entry];

	if (x_ms != y_ms)
		return x_ms < y_ms ? -1 : 1;
	if (x->streams != y->streams)
		return x->streams < y->streams ? -1 : 1;
	return strcmp(x->by->name, y->by->name);
}

size_t
neighbours_find(struct neighbours *n, const struct neighbours_ask *ask, struct neighbours_way *ways,
	size_t room, const char **why)
{
	struct candidate found[CANDIDATES_MAX];
	struct neighbours_ask full = *ask;
	struct table_node *at;
	size_t count = 0;

	*why = NULL;
	if (n->n_declared == 0)
		return 0;
	neighbours_look(n);
	if (strcmp(ask->node, REACHABLE_NETS_ANY) != 0)
		full.ip = address_of(n, ask->node);
	for (at = first_of_site(n, ask); at != NULL && count < CANDIDATES_MAX;
		at = table_next(at)) {
		const struct neighbour *b = neighbour_in(at);
		int entry = entry_for(n, b, &full, why);

		if (entry < 0)
			continue;
		if (!n->config.tunnelled(n->config.arg, b->name))
			*why = "no neighbour that reaches it has a tunnel now";
		else
			found[count++] = (struct candidate){.by = b, .entry = (unsigned)entry};
	}
	for (size_t i = 0; count > 1 && i < count; i++)
		found[i].streams = n->config.streams(n->config.arg, found[i].by->name);
	qsort(found, count, sizeof *found, neighbours_find_compare);
	for (size_t i = 0; i < MIN(count, room); i++) {
		snprintf(ways[i].via, sizeof ways[i].via, "%s", found[i].by->name);
		ways[i].entry = found[i].entry;
	}
	return MIN(count, room);
}

uint64_t
neighbours_changes(const struct neighbours *n)
{
	return n->changes;
}

bool
neighbours_stand_for(struct neighbours *n, const char *node)
{
	const struct neighbour *by;
	struct in6_addr ip;

	if (n->n_declared == 0 && n->carried.n == 0)
		return false;
	neighbours_look(n);
	if (neighbours_carried(n, node) != NULL)
		return true;
	ip = address_of(n, node);
	if (!n->sites && is_ours(n, &ip))
		return false;
	/* An objection to this neighbour applies to its whole site: it depends on the node. */
	by = neighbours_index_find(n, node, &ip);
	return by != NULL && neighbours_objection(n, by, node) == NULL;
}

/* True if one of its networks contains the address. */
static bool
neighbours_find_holds(const struct neighbour *b, const struct in6_addr *ip)
{
	for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++)
		if (b->wrong[i] == NULL && b->vicinity->list[i].node == NULL &&
			reachable_nets_covers(&b->vicinity->list[i], REACHABLE_NETS_ANY, ip))
			return true;
	return false;
}

static void
add_site(const struct neighbour *b, struct neighbours_site *sites, size_t room, size_t *count)
{
	size_t i = 0;

	while (i < MIN(*count, room) && strcmp(sites[i].site, b->site) != 0)
		i++;
	if (i < MIN(*count, room)) { /* keep the same neighbour of a site each time */
		if (strcmp(b->name, sites[i].via) < 0)
			sites[i].via = b->name;
		return;
	}
	if (*count < room)
		sites[*count] = (struct neighbours_site){b->site, b->name};
	(*count)++;
}

size_t
neighbours_sites(
	struct neighbours *n, const struct in6_addr *ip, struct neighbours_site *sites, size_t room)
{
	struct table_node *at = NULL;
	size_t slot = 0, count = 0;

	if (n->n_declared == 0 || is_ours(n, ip))
		return 0;
	neighbours_look(n);
	while ((at = table_walk(&n->all, &slot, at)) != NULL)
		if (neighbours_find_holds(neighbour_of(at), ip))
			add_site(neighbour_of(at), sites, room, &count);
	return count;
}

bool
neighbours_declares(
	struct neighbours *n, const char *via, const struct neighbours_ask *ask, const char **site)
{
	const struct neighbour *b = neighbours_get(n, via);
	struct neighbours_ask full = *ask;
	const char *why;

	neighbours_look(n);
	if (b == NULL)
		return false;
	*site = full.site = b->site;
	full.port = 0;
	if (strcmp(ask->node, REACHABLE_NETS_ANY) != 0)
		full.ip = address_of(n, ask->node);
	return entry_for(n, b, &full, &why) >= 0;
}

/* --- results -------------------------------------------------------------------------------- */

static void
note_carried(struct neighbours *n, const char *node, const char *via)
{
	struct carried_node *c = neighbours_carried(n, node);

	if (c == NULL) {
		c = xcalloc(1, sizeof *c);
		c->name = xstrdup(node);
		table_add(&n->carried, &c->node, neighbours_hash(node));
		n->changes++;
	}
	if (strcmp(c->via, via) == 0)
		return;
	log_limited(LOG_LEVEL_INFO, 20, "hub",
		"a node without a tunnel is reached through a neighbour node=%s via=%s", node, via);
	snprintf(c->via, sizeof c->via, "%s", via);
}

void
neighbours_result(
	struct neighbours *n, const char *node, const struct neighbours_way *way, bool worked)
{
	struct neighbour *b = neighbours_get(n, way->via);

	if (b == NULL)
		return;
	if (b->vicinity != NULL && way->entry < b->vicinity->n)
		b->failed_ms[way->entry] = worked ? 0 : loop_now_ms(n->config.loop);
	b->streams += worked;
	if (worked && strcmp(node, REACHABLE_NETS_ANY) != 0)
		note_carried(n, node, way->via);
}

void
neighbours_own(struct neighbours *n, const char *node)
{
	struct carried_node *c = neighbours_carried(n, node);

	if (c == NULL || c->via[0] == '\0')
		return;
	log_limited(LOG_LEVEL_INFO, 20, "hub",
		"a node's own tunnel takes over; what its neighbour carries finishes node=%s "
		"via=%s",
		node, c->via);
	c->via[0] = '\0';
}
