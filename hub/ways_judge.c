/*
 * Which of the ways that were found may be gone for a caller: the rules judge the target that he names, and then each way, since objects of
 * the cluster, which others write, say where it ends.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/special_addr.h"
#include "hub/ways_private.h"

/* The node whose own address the way leads to, by its Node object; NULL: none. Where the hub dials, it is one of those that it dials. */
static const char *
ways_owner(const struct ways_finder *f, const struct way *way, const struct in6_addr *ip)
{
	char host[INET6_ADDRSTRLEN];
	struct cluster_place *places;
	const char *owner = NULL;
	size_t n;

	if (IN6_IS_ADDR_V4MAPPED(ip))
		inet_ntop(AF_INET, &ip->s6_addr[12], host, sizeof host);
	else
		inet_ntop(AF_INET6, ip, host, sizeof host);
	n = cluster_places(f->config.cluster, host, NULL, 0);
	places = xcalloc(n + 1, sizeof *places);
	n = cluster_places(f->config.cluster, host, places, n);
	for (size_t i = 0; i < n && owner == NULL; i++)
		if (*places[i].pod == '\0' &&
			(*way->node != '\0' ? strcmp(places[i].node, way->node) == 0
					    : !ways_at_edge(f, places[i].node)))
			owner = places[i].node;
	free(places);
	return owner;
}

/* Why this way is not gone; NULL: it may be. */
static const char *
ways_objection(struct ways_finder *f, const struct caller *caller, const struct way *way)
{
	struct access_target port_of = {.kind = TARGET_NODE};
	const char *why = NULL;
	struct in6_addr ip;
	struct addr to;

	if (*way->node != '\0')
		why = f->config.refuses(f->config.arg, way->node, way->authority);
	if (why != NULL || addr_parse(&to, way->authority, 0, NULL) < 0 || !addr_ip(&to, &ip))
		return why;
	ip = special_addr_inner(&ip);
	if (*way->node == '\0')
		why = self_guard_refuses(f->config.guard, &to, caller);
	if (why != NULL || !way->given || (port_of.node = ways_owner(f, way, &ip)) == NULL)
		return why;
	port_of.port = addr_port(&to);
	return access_check(f->config.access, caller, &port_of)
		? NULL
		: "an EndpointSlice leads to a port of a node itself, which takes a rule to "
		  "NODE:PORT, or a pod of the host's network that declares the port";
}

unsigned
ways_judge(struct ways_finder *f, const struct caller *caller, struct ways *w)
{
	const char *why = NULL, *first = NULL;
	char authority[sizeof w->list[0].authority] = "";
	size_t kept = 0;

	if (caller->own_dial)
		return ways_refuse(w, 403, "the hub has dialled itself: nothing is opened to it");
	if (!access_check(f->config.access, caller, &w->target))
		return ways_refuse(w, 403, "no rule of access opens this target to this caller");
	for (size_t i = 0; i < w->n; i++) {
		if ((why = ways_objection(f, caller, &w->list[i])) == NULL) {
			if (kept != i)
				w->list[kept] = w->list[i];
			kept++;
		} else if (first == NULL) {
			first = why;
			snprintf(authority, sizeof authority, "%s", w->list[i].authority);
		}
	}
	if (kept == 0 && first != NULL)
		return ways_refuse(w, 403, "%s: %s", authority, first);
	w->n = kept;
	return 0;
}
