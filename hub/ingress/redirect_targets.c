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

/* --- lists of numbers ----------------------------------------------------------------------- */

static int
by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

size_t
redirect_targets_sort(uint32_t *list, size_t n)
{
	size_t kept = 0;

	if (n > 1)
		qsort(list, n, sizeof *list, by_number);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || list[kept - 1] != list[i])
			list[kept++] = list[i];
	return kept;
}

bool
redirect_targets_in(const uint32_t *sorted, size_t n, uint32_t number)
{
	return n > 0 && bsearch(&number, sorted, n, sizeof number, by_number) != NULL;
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

static bool
is_unfit(uint32_t ip)
{
	struct addr a = addr_ipv4(ip, 1);

	return ip >> 24 == 127 || tunnel_acl_never(&a) != NULL;
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
redirect_targets_add(struct redirect_targets *d, uint32_t ip)
{
	if (d->n == d->room) {
		d->room = MAX(2 * d->room, (size_t)64);
		d->list = xrealloc(d->list, d->room * sizeof *d->list);
	}
	d->list[d->n++] = ip;
}

static void
redirect_targets_judge(struct search *s, const struct cluster_node_facts *node, const char *address)
{
	struct redirect_targets *d = s->to;
	uint32_t ip = ip_v4(address);
	enum redirect_targets_why why;

	if (node->direct)
		why = REDIRECT_TARGETS_DIRECT;
	else if (!s->at_edge)
		why = REDIRECT_TARGETS_NOT_AT_EDGE;
	else if (ip == 0)
		why = REDIRECT_TARGETS_IPV6;
	else if (is_unfit(ip))
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
			redirect_targets_judge(s, node, node->addresses[i]);
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

bool
redirect_targets_have(const struct redirect_targets *d, uint32_t address)
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
