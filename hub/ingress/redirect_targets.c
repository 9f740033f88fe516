#include "hub/ingress/redirect_targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/check.h"
#include "tunnel/tunnel.h"

struct search {
	struct redirect_targets *to;
	const struct redirect_targets_question *q;
	bool at_edge; /* of the node being checked */
};

/* --- lists of addresses --------------------------------------------------------------------- */

static int
by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct in6_addr));
}

size_t
redirect_targets_sort(struct in6_addr *list, size_t n)
{
	size_t kept = 0;

	if (n > 1)
		qsort(list, n, sizeof *list, by_bytes);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !ip_same(&list[kept - 1], &list[i]))
			list[kept++] = list[i];
	return kept;
}

static bool
redirect_targets_in(const struct in6_addr *sorted, size_t n, const struct in6_addr *ip)
{
	return n > 0 && bsearch(ip, sorted, n, sizeof *ip, by_bytes) != NULL;
}

/* --- one address ---------------------------------------------------------------------------- */

/* InternalIP and Hostname may be the same text. */
static bool
said_before(const struct cluster_node_facts *node, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(node->addresses[k], node->addresses[i]) == 0)
			return true;
	return false;
}

/* ::ffff:192.0.2.1 as a text is nobody's address. */
static bool
is_unfit(const struct in6_addr *ip, const char *text)
{
	struct addr a = addr_of(ip, 1);

	return ip_is_loopback(ip) || tunnel_acl_never(&a) != NULL ||
		(IN6_IS_ADDR_V4MAPPED(ip) && strchr(text, ':') != NULL);
}

static bool
is_ambiguous(const struct search *s, const char *address)
{
	const char *ns, *name;
	struct cluster_place place;

	return cluster_places(s->q->cluster, address, &place, 1) != 1 ||
		cluster_service_at(s->q->cluster, address, &ns, &name);
}

static void
note_ambiguous(struct redirect_targets *d, const char *address, const char *node)
{
	size_t at = strlen(d->ambiguous);

	if (at < sizeof d->ambiguous / 2)
		snprintf(d->ambiguous + at, sizeof d->ambiguous - at, "%s%s of %.100s",
			at > 0 ? ", " : "", address, node);
}

static void
redirect_targets_add(struct redirect_targets *d, const struct in6_addr *ip)
{
	if (d->n == d->room) {
		d->room = MAX(2 * d->room, (size_t)64);
		d->list = xrealloc(d->list, d->room * sizeof *d->list);
	}
	d->list[d->n++] = *ip;
}

static void
redirect_targets_judge(struct search *s, const struct cluster_node_facts *node, const char *address,
	const struct in6_addr *ip)
{
	struct redirect_targets *d = s->to;
	enum redirect_targets_why why;

	if (node->direct)
		why = REDIRECT_TARGETS_DIRECT;
	else if (!s->at_edge)
		why = REDIRECT_TARGETS_NOT_AT_EDGE;
	else if (is_unfit(ip, address))
		why = REDIRECT_TARGETS_UNFIT;
	else if (redirect_targets_in(s->q->own, s->q->n_own, ip))
		why = REDIRECT_TARGETS_OWN;
	else if (is_ambiguous(s, address))
		why = REDIRECT_TARGETS_AMBIGUOUS;
	else {
		redirect_targets_add(d, ip);
		return;
	}
	d->left_out[why]++;
	if (why == REDIRECT_TARGETS_AMBIGUOUS)
		note_ambiguous(d, address, node->name);
}

static void
on_node(void *arg, const struct cluster_node_facts *node)
{
	struct search *s = arg;
	struct in6_addr ip;

	s->at_edge = !node->direct && s->q->at_edge(s->q->arg, node->name);
	for (size_t i = 0; i < node->n_addresses; i++)
		if (ip_parse(node->addresses[i], &ip) && !said_before(node, i))
			redirect_targets_judge(s, node, node->addresses[i], &ip);
}

/* --- all of them ---------------------------------------------------------------------------- */

void
redirect_targets_find(struct redirect_targets *d, const struct redirect_targets_question *q)
{
	struct search s = {.to = d, .q = q};

	d->n = 0;
	memset(d->left_out, 0, sizeof d->left_out);
	d->ambiguous[0] = '\0';
	cluster_each_node(q->cluster, on_node, &s);
	d->n = redirect_targets_sort(d->list, d->n);
}

void
redirect_targets_leave(struct redirect_targets *d, bool v6)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->n; i++)
		if (IN6_IS_ADDR_V4MAPPED(&d->list[i]) == v6)
			d->list[kept++] = d->list[i];
	d->left_out[v6 ? REDIRECT_TARGETS_IPV6 : REDIRECT_TARGETS_IPV4] += d->n - kept;
	d->n = kept;
}

const struct in6_addr *
redirect_targets_first(const struct redirect_targets *d, bool v6)
{
	for (size_t i = 0; i < d->n; i++)
		if (IN6_IS_ADDR_V4MAPPED(&d->list[i]) != v6)
			return &d->list[i];
	return NULL;
}

bool
redirect_targets_have(const struct redirect_targets *d, const struct in6_addr *address)
{
	return redirect_targets_in(d->list, d->n, address);
}

const char *
redirect_targets_why_text(enum redirect_targets_why why)
{
	static const char *const texts[REDIRECT_TARGETS_WHYS] = {
		[REDIRECT_TARGETS_DIRECT] = "direct",
		[REDIRECT_TARGETS_NOT_AT_EDGE] = "notAtEdge",
		[REDIRECT_TARGETS_AMBIGUOUS] = "ambiguous",
		[REDIRECT_TARGETS_OWN] = "own",
		[REDIRECT_TARGETS_IPV4] = "ipv4",
		[REDIRECT_TARGETS_IPV6] = "ipv6",
		[REDIRECT_TARGETS_UNFIT] = "unfit",
	};

	return texts[why];
}

void
redirect_targets_fini(struct redirect_targets *d)
{
	free(d->list);
	*d = (struct redirect_targets){0};
}
