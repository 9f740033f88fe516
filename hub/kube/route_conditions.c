#include "hub/kube/route_conditions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/tree.h"
#include "model/json.h"

struct condition {
	const char *type, *reason, *message;
	bool status;
};

struct conditions_writer {
	struct buf *out;
	const struct cluster_route *route;
	int64_t now_s;
	bool differs;
};

/* --- what is there -------------------------------------------------------------------------- */

static bool
conditions_same_text(const struct tree_node *map, const char *key, const char *text)
{
	return strcmp(tree_text(tree_get(map, key), ""), text) == 0;
}

static bool
conditions_is_parent(const struct tree_node *entry, const struct kube_route_parent *p)
{
	const struct tree_node *parent = tree_get(entry, "parentRef");
	const struct tree_node *ref = parent != NULL ? parent : tree_get(entry, "ancestorRef");
	int64_t port = 0;

	tree_int(tree_get(ref, "port"), 0, UINT16_MAX, &port);
	return conditions_same_text(ref, "kind", "Service") &&
		conditions_same_text(ref, "name", p->name) &&
		conditions_same_text(ref, "namespace", p->ns_given ? p->ns : "") &&
		conditions_same_text(ref, "sectionName", p->section) && port == p->port;
}

static const struct tree_node *
conditions_find_entry(const struct tree_node *own, const struct kube_route_parent *p)
{
	tree_each(own, entry)
		if (conditions_is_parent(entry, p))
			return entry;
	return NULL;
}

static const struct tree_node *
conditions_find(const struct tree_node *entry, const char *type)
{
	tree_each(tree_get(entry, "conditions"), c)
		if (conditions_same_text(c, "type", type))
			return c;
	return NULL;
}

static size_t
conditions_count(const struct tree_node *list)
{
	size_t n = 0;

	tree_each(list, c)
		n++;
	return n;
}

/* --- what is to be -------------------------------------------------------------------------- */

static void
conditions_add(
	struct conditions_writer *w, const struct condition *c, const struct tree_node *entry)
{
	const struct tree_node *old = conditions_find(entry, c->type);
	const char *status = c->status ? "True" : "False";
	auto_free char *message = xstrndup(c->message, ROUTE_CONDITION_MESSAGE_MAX - 1);
	bool same = conditions_same_text(old, "status", status);
	const char *since = tree_text(tree_get(old, "lastTransitionTime"), "");
	int64_t generation = -1;

	tree_int(tree_get(old, "observedGeneration"), 0, INT64_MAX, &generation);
	if (!same || generation != (int64_t)w->route->route->generation ||
		!conditions_same_text(old, "reason", c->reason) ||
		!conditions_same_text(old, "message", message))
		w->differs = true;
	buf_printf(w->out,
		"{\"type\":\"%s\",\"status\":\"%s\",\"reason\":\"%s\",\"observedGeneration\":"
		"%" PRIu64 ",\"lastTransitionTime\":",
		c->type, status, c->reason, w->route->route->generation);
	if (same && *since != '\0') {
		json_add_text(w->out, since);
	} else {
		buf_adds(w->out, "\"");
		buf_add_utc(w->out, w->now_s);
		buf_adds(w->out, "\"");
	}
	buf_adds(w->out, ",\"message\":");
	json_add_text(w->out, message);
	buf_adds(w->out, "}");
}

/* The names are what their object's author wrote: those of a policy are checked by nobody. */
static void
conditions_add_ref(struct buf *out, const struct kube_route_parent *p)
{
	buf_adds(out, "{\"group\":\"\",\"kind\":\"Service\"");
	if (p->ns_given) {
		buf_adds(out, ",\"namespace\":");
		json_add_text(out, p->ns);
	}
	buf_adds(out, ",\"name\":");
	json_add_text(out, p->name);
	if (*p->section != '\0') {
		buf_adds(out, ",\"sectionName\":");
		json_add_text(out, p->section);
	}
	if (p->port != 0)
		buf_printf(out, ",\"port\":%u", p->port);
	buf_adds(out, "}");
}

static void
conditions_add_parent(struct conditions_writer *w, const struct cluster_route_parent *p,
	const struct tree_node *own)
{
	const struct tree_node *entry = conditions_find_entry(own, p->ref);
	const struct condition list[] = {
		{"Accepted", p->accepted_reason, p->accepted_message, p->accepted},
		{"ResolvedRefs", p->resolved_reason, p->resolved_message, p->resolved},
		{"PartiallyInvalid", "UnsupportedValue", p->partly, true},
	};
	size_t n = p->partly != NULL ? 3 : 2;

	if (conditions_count(tree_get(entry, "conditions")) != n)
		w->differs = true;
	buf_printf(w->out,
		"{\"%s\":", w->route->kind == KUBE_TLS_POLICY ? "ancestorRef" : "parentRef");
	conditions_add_ref(w->out, p->ref);
	buf_adds(w->out, ",\"controllerName\":\"" KUBE_GATEWAY_CONTROLLER "\",\"conditions\":[");
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			buf_adds(w->out, ",");
		conditions_add(w, &list[i], entry);
	}
	buf_adds(w->out, "]}");
}

/* A parent that is named twice has one entry. */
static bool
conditions_is_repeated(const struct cluster_route *r, size_t at)
{
	const struct kube_route_parent *p = r->parents[at].ref;

	for (size_t i = 0; i < at; i++) {
		const struct kube_route_parent *q = r->parents[i].ref;

		if (strcmp(p->ns, q->ns) == 0 && strcmp(p->name, q->name) == 0 &&
			strcmp(p->section, q->section) == 0 && p->port == q->port)
			return true;
	}
	return false;
}

/* How many entries it may have beside those of others: the API bounds the list of a policy. */
static size_t
conditions_room(const struct cluster_route *r)
{
	auto_free char *text = xasprintf("[%s]", r->route->status_others);
	struct tree *tree = NULL;
	size_t n = 0;

	if (r->kind != KUBE_TLS_POLICY)
		return SIZE_MAX;
	if (tree_parse(&tree, "status", text, strlen(text), NULL) == 0 && tree_count(tree) == 1)
		n = conditions_count(tree_document(tree, 0));
	tree_free(&tree);
	return n < POLICY_ANCESTORS_MAX ? POLICY_ANCESTORS_MAX - n : 0;
}

bool
route_conditions_build(struct buf *out, const struct cluster_route *r, int64_t now_s)
{
	struct conditions_writer w = {.out = out, .route = r, .now_s = now_s};
	auto_free char *text = xasprintf("[%s]", r->route->status_own);
	const char *comma = *r->route->status_others != '\0' ? "," : "";
	const struct tree_node *own = NULL;
	struct tree *tree = NULL;
	size_t n = 0, room = conditions_room(r);

	if (tree_parse(&tree, "status", text, strlen(text), NULL) == 0 && tree_count(tree) == 1)
		own = tree_document(tree, 0);
	buf_printf(out, "[%s", r->route->status_others);
	for (size_t i = 0; i < r->n_parents; i++) {
		if (conditions_is_repeated(r, i) || n >= room)
			continue;
		buf_adds(out, comma);
		comma = ",";
		conditions_add_parent(&w, &r->parents[i], own);
		n++;
	}
	buf_adds(out, "]");
	if (conditions_count(own) != n)
		w.differs = true;
	tree_free(&tree);
	return w.differs;
}
