/*
 * Rules and tables of the routes that count at a Service, in order of precedence. Matches are those
 * of the decoded routes, whose memory the view borrows.
 */
#include <string.h>

#include "base/core/buf.h"
#include "model/cluster/cluster_route_private.h"
#include "model/json.h"

/* --- rules ---------------------------------------------------------------------------------- */

static void
rule_resolve(struct attaching *a, const struct record *route, const struct kube_route_rule *from,
	struct http_route_rule *to)
{
	struct http_route_backend *b =
		http_routes_alloc(a->to, to->n_backends + 1u, sizeof *to->backends);
	struct http_route_mirror *m =
		http_routes_alloc(a->to, to->n_mirrors + 1u, sizeof *to->mirrors);
	bool valid = false;
	uint8_t n = 0;

	for (size_t i = 0; i < to->n_backends; i++) {
		struct route_backend ref = {to->backends[i].ns, to->backends[i].name,
			from->backend_kinds[i], to->backends[i].port};

		b[i] = to->backends[i];
		b[i].invalid =
			cluster_route_resolve(a->c, route, a->ns, &ref, NULL) != ROUTE_REF_WELL;
		to->weight += b[i].weight;
		valid = valid || (!b[i].invalid && b[i].weight > 0);
	}
	for (size_t i = 0; i < to->n_mirrors; i++) {
		struct route_backend ref = {to->mirrors[i].ns, to->mirrors[i].name,
			from->mirror_kinds[i], to->mirrors[i].port};

		if (cluster_route_resolve(a->c, route, a->ns, &ref, NULL) == ROUTE_REF_WELL)
			m[n++] = to->mirrors[i];
	}
	to->backends = b;
	to->mirrors = m;
	to->n_mirrors = n;
	if (!valid && to->redirect == NULL)
		to->status = 500;
}

/* What answers 500 needs nothing else. */
static void
rule_strip(struct http_route_rule *r)
{
	if (r->status == 0)
		return;
	*r = (struct http_route_rule){.route = r->route,
		.name = r->name,
		.index = r->index,
		.status = r->status,
		.request_ms = HTTP_ROUTE_MS_DEFAULT,
		.backend_ms = HTTP_ROUTE_MS_DEFAULT};
}

static void
attach_rules(struct attaching *a, struct attached *r)
{
	const struct kube_route *route = &r->record->object->route;

	r->first_rule = a->to->n_rules;
	for (size_t i = 0; i < route->n_rules; i++) {
		struct http_route_rule *to = &a->to->rules[a->to->n_rules];

		if (route->rules[i].dropped)
			continue;
		*to = route->rules[i].rule;
		rule_resolve(a, r->record, &route->rules[i], to);
		rule_strip(to);
		a->to->n_rules++;
	}
	r->n_rules = a->to->n_rules - r->first_rule;
}

/* --- limits --------------------------------------------------------------------------------- */

static size_t
count_tables(const struct attaching *a, const struct attached *r)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n_groups; i++)
		n += a->groups[i].scope == r->scope &&
			cluster_route_has_port(&r->ports, a->groups[i].port);
	return n;
}

enum { RULE_DIGITS = 5 }; /* of a match's index of its rule */

static void
need_add(struct need *need, struct buf *list, size_t times)
{
	buf_adds(list, "]");
	need->bytes += buf_len(list) * times;
	need->values += json_values(buf_at(list), buf_len(list)) * times;
	buf_consume(list, buf_len(list));
	buf_adds(list, "[");
}

/* What the route needs: its rules once, its matches in each table. */
static struct need
attach_need(const struct attaching *a, const struct attached *r)
{
	const struct kube_route *route = &r->record->object->route;
	size_t tables = count_tables(a, r);
	struct need need = {0};
	auto_buf struct buf json;

	buf_init(&json, BUF_UNLIMITED);
	buf_adds(&json, "[");
	for (uint32_t i = 0; i < r->n_rules; i++) {
		buf_adds(&json, i > 0 ? "," : "");
		http_route_build_rule(&json, &a->to->rules[r->first_rule + i]);
	}
	need_add(&need, &json, 1);
	for (size_t i = 0; i < route->n_rules; i++)
		for (size_t k = 0; k < route->rules[i].n_matches && !route->rules[i].dropped; k++) {
			buf_adds(&json, buf_len(&json) > 1 ? "," : "");
			http_route_build_match(&json, &route->rules[i].matches[k]);
			need.matches++;
			need.regexes += (uint32_t)http_match_regexes(&route->rules[i].matches[k]);
		}
	need.bytes += RULE_DIGITS * need.matches * tables;
	need_add(&need, &json, tables);
	need.matches *= (uint32_t)tables;
	need.regexes *= (uint32_t)tables;
	return need;
}

static bool
need_fits(const struct need *n, const struct need *left)
{
	return n->bytes <= left->bytes && n->values <= left->values &&
		n->matches <= left->matches && n->regexes <= left->regexes;
}

static void
need_take(struct need *left, const struct need *n)
{
	left->bytes -= n->bytes;
	left->values -= n->values;
	left->matches -= n->matches;
	left->regexes -= n->regexes;
}

/* Takes what the route needs, which its rules' place in the list tells; own: what its namespace may
 * still use. */
static bool
attach_fits(struct attaching *a, const struct attached *r, struct need *own)
{
	struct need need = attach_need(a, r);

	if (!need_fits(&need, &a->left) || !need_fits(&need, own) ||
		a->to->n_rules > ROUTES_RULES_MAX)
		return false;
	need_take(&a->left, &need);
	need_take(own, &need);
	return true;
}

/* A namespace of consumers must not use up what the others need. */
static struct need
attach_share(const struct attaching *a, const struct attached *r)
{
	struct need all = a->left;

	if (strcmp(r->record->ns, a->ns) == 0)
		return all;
	return (struct need){all.bytes / ROUTES_CONSUMER_PART, all.values / ROUTES_CONSUMER_PART,
		all.matches / ROUTES_CONSUMER_PART, all.regexes / ROUTES_CONSUMER_PART};
}

/* What the view leaves. */
static void
attach_measure(struct attaching *a, const struct view *v)
{
	auto_buf struct buf json;
	size_t bytes, values;

	buf_init(&json, BUF_UNLIMITED);
	view_build(&json, v);
	bytes = MIN(buf_len(&json) + 1024, (size_t)VIEW_MAX_BYTES);
	values = MIN(json_values(buf_at(&json), buf_len(&json)) + 64, (size_t)VIEW_MAX_VALUES);
	a->left = (struct need){MIN(VIEW_MAX_BYTES - bytes, (size_t)ROUTES_MAX_BYTES),
		MIN(VIEW_MAX_VALUES - values, (size_t)ROUTES_MAX_VALUES), ROUTES_MATCHES_MAX,
		ROUTES_REGEX_MAX};
}

/* Tables beyond the limit are those of the last scopes, whose routes then count nowhere. */
static void
attach_limit_tables(struct attaching *a)
{
	while (a->n_groups > ROUTES_TABLES_MAX) {
		size_t scope = a->groups[a->n_groups - 1].scope;

		for (size_t i = scope; i < a->n_routes && a->routes[i].scope == scope; i++)
			a->routes[i].verdict = ROUTE_BEYOND;
		while (a->n_groups > 0 && a->groups[a->n_groups - 1].scope == scope)
			a->n_groups--;
	}
}

static void
attach_take(struct attaching *a)
{
	struct need own = {0};
	size_t rules = 0;

	for (size_t i = 0; i < a->n_routes; i++)
		rules += a->routes[i].record->object->route.n_rules;
	a->to->rules = http_routes_alloc(a->to, rules + 1, sizeof *a->to->rules);
	for (size_t i = 0; i < a->n_routes; i++) {
		struct attached *r = &a->routes[i];

		if (r->scope == i)
			own = attach_share(a, r);
		if (r->verdict != ROUTE_TAKEN)
			continue;
		attach_rules(a, r);
		if (attach_fits(a, r, &own)) {
			http_routes_borrow(a->to, r->record->object->route.parts);
			continue;
		}
		a->to->n_rules = r->first_rule;
		r->verdict = ROUTE_BEYOND;
	}
}

/* --- tables --------------------------------------------------------------------------------- */

static size_t
table_gather(const struct attaching *a, const struct group *g, struct route_match *to)
{
	size_t n = 0;

	for (size_t i = g->scope; i < a->n_routes && a->routes[i].scope == g->scope; i++) {
		const struct attached *r = &a->routes[i];
		const struct kube_route *route = &r->record->object->route;
		uint32_t rule = r->first_rule, nth = 0;

		if (r->verdict != ROUTE_TAKEN || !cluster_route_has_port(&r->ports, g->port))
			continue;
		for (size_t k = 0; k < route->n_rules; k++) {
			const struct kube_route_rule *from = &route->rules[k];

			for (size_t m = 0; m < from->n_matches && !from->dropped; m++) {
				if (to != NULL)
					to[n] = (struct route_match){
						&from->matches[m], i, rule, nth};
				n++;
				nth++;
			}
			rule += !from->dropped;
		}
	}
	return n;
}

static void
attach_table(struct attaching *a, const struct group *g)
{
	struct http_route_table *t = &a->to->tables[a->to->n_tables++];
	size_t n = table_gather(a, g, NULL);
	struct route_match *list = xcalloc(n + 1, sizeof *list);
	const char *ns = a->routes[g->scope].record->ns;
	uint16_t *ports = http_routes_alloc(a->to, g->n_ports, sizeof *ports);

	table_gather(a, g, list);
	cluster_route_sort(list, n, g->grpc);
	memcpy(ports, g->ports, g->n_ports * sizeof *ports);
	t->ns = strcmp(ns, a->ns) == 0 ? "" : http_routes_text(a->to, ns);
	t->grpc = g->grpc;
	t->n_ports = g->n_ports;
	t->ports = ports;
	t->n_matches = (uint32_t)n;
	t->matches = http_routes_alloc(a->to, n + 1, sizeof *t->matches);
	for (size_t i = 0; i < n; i++) {
		t->matches[i] = *list[i].match;
		t->matches[i].rule = list[i].rule;
	}
	free(list);
}

/* A group without an accepted route leaves the Service's own endpoints; one whose rules were all
 * dropped, too: those routes are not accepted. */
static bool
group_is_empty(const struct attaching *a, const struct group *g)
{
	return table_gather(a, g, NULL) == 0;
}

static void
attach_tables(struct attaching *a)
{
	a->to->tables = http_routes_alloc(a->to, a->n_groups + 1, sizeof *a->to->tables);
	for (size_t i = 0; i < a->n_groups; i++)
		if (!group_is_empty(a, &a->groups[i]))
			attach_table(a, &a->groups[i]);
}

/* --- the whole ------------------------------------------------------------------------------ */

void
cluster_route_build(struct attaching *a, const struct view *v)
{
	attach_measure(a, v);
	attach_limit_tables(a);
	attach_take(a);
	attach_tables(a);
}
