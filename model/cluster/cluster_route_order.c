/*
 * The order of precedence of matches, to the letter of the Gateway API. Of regular expressions it
 * says nothing: here they come after exact paths and before prefixes, as with other
 * implementations, since a rule for "/" would hide them otherwise; the longer ones first.
 */
#include <string.h>

#include "model/cluster/cluster_private.h"

/* Rules of unknown age last; kinds are apart, but two routes of one name need an order. */
int
cluster_route_compare_age(const struct record *a, const struct record *b)
{
	const char *x = a->object->route.created, *y = b->object->route.created;
	int order = (int)(*x == '\0') - (int)(*y == '\0');

	if (order == 0)
		order = strcmp(x, y);
	if (order == 0)
		order = strcmp(a->ns, b->ns);
	if (order == 0)
		order = strcmp(a->name, b->name);
	return order != 0 ? order : (int)a->kind - (int)b->kind;
}

static int
order_by(size_t x, size_t y)
{
	return (x > y) - (x < y);
}

/* Of equal matches that of the older route, then that of the first rule. */
static int
order_ties(const struct route_match *x, const struct route_match *y)
{
	return x->route != y->route ? order_by(x->route, y->route) : order_by(x->nth, y->nth);
}

static int
order_http(const void *a, const void *b)
{
	static const uint8_t ranks[] = {[HTTP_MATCH_EXACT] = 0,
		[HTTP_MATCH_REGEX] = 1,
		[HTTP_MATCH_PREFIX] = 2,
		[HTTP_MATCH_ANY_PATH] = 3};
	const struct route_match *p = a, *q = b;
	const struct http_route_match *x = p->match, *y = q->match;
	int order = order_by(ranks[x->kind], ranks[y->kind]);

	if (order == 0 && x->kind != HTTP_MATCH_EXACT)
		order = order_by(y->path_len, x->path_len);
	if (order == 0)
		order = order_by(*x->method == '\0', *y->method == '\0');
	if (order == 0)
		order = order_by(y->n_headers, x->n_headers);
	if (order == 0)
		order = order_by(y->n_params, x->n_params);
	return order != 0 ? order : order_ties(p, q);
}

static int
order_grpc(const void *a, const void *b)
{
	const struct route_match *p = a, *q = b;
	const struct http_route_match *x = p->match, *y = q->match;
	int order = order_by(y->service_len, x->service_len);

	if (order == 0)
		order = order_by(y->method_len, x->method_len);
	if (order == 0)
		order = order_by(y->n_headers, x->n_headers);
	return order != 0 ? order : order_ties(p, q);
}

void
cluster_route_sort(struct route_match *list, size_t n, bool grpc)
{
	qsort(list, n, sizeof *list, grpc ? order_grpc : order_http);
}
