#include "hub/routing/neighbours.h"

#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "hub/routing/neighbours_private.h"

struct neighbours *
neighbours_new(const struct neighbours_config *config)
{
	struct neighbours *n = xcalloc(1, sizeof *n);

	n->config = *config;
	return n;
}

uint64_t
neighbours_hash(const char *node)
{
	return hash64(node, strlen(node), 0);
}

struct neighbour *
neighbours_get(const struct neighbours *n, const char *node)
{
	struct table_node *at = table_first(&n->all, neighbours_hash(node));

	for (; at != NULL; at = table_next(at))
		if (strcmp(neighbour_of(at)->name, node) == 0)
			return neighbour_of(at);
	return NULL;
}

struct carried_node *
neighbours_carried(const struct neighbours *n, const char *node)
{
	struct table_node *at = table_first(&n->carried, neighbours_hash(node));

	for (; at != NULL; at = table_next(at))
		if (strcmp(carried_of(at)->name, node) == 0)
			return carried_of(at);
	return NULL;
}

static void
free_neighbour(struct neighbours *n, struct neighbour *b)
{
	neighbours_index_remove(n, b);
	table_remove(&n->all, &b->node);
	table_remove(&n->sites_of, &b->by_site);
	reachable_nets_free(&b->here);
	reachable_nets_free(&b->there);
	free(b->wrong);
	free(b->failed_ms);
	free(b->name);
	free(b->site);
	free(b);
}

static void
free_carried(struct neighbours *n, struct carried_node *c)
{
	table_remove(&n->carried, &c->node);
	free(c->name);
	free(c);
}

void
neighbours_free(struct neighbours **out)
{
	struct neighbours *n = take_ptr(out);
	struct table_node *at;
	size_t slot = 0;

	if (n == NULL)
		return;
	for (; (at = table_walk(&n->all, &slot, NULL)) != NULL; slot = 0)
		free_neighbour(n, neighbour_of(at));
	for (slot = 0; (at = table_walk(&n->carried, &slot, NULL)) != NULL; slot = 0)
		free_carried(n, carried_of(at));
	table_fini(&n->all);
	table_fini(&n->sites_of);
	table_fini(&n->named);
	table_fini(&n->networks);
	table_fini(&n->carried);
	free(n);
}

/* --- what counts ---------------------------------------------------------------------------- */

const char *
neighbours_site_of(const struct neighbours *n, const char *node)
{
	const char *site, *zone;

	cluster_node(n->config.cluster, node, &site, &zone);
	return site;
}

static bool
is_control_plane(const struct neighbours *n, const char *node)
{
	const struct kube_labels *labels = cluster_node_labels(n->config.cluster, node);

	for (size_t i = 0; labels != NULL && i < labels->n; i++)
		if (strcmp(labels->list[i].key, "node-role.kubernetes.io/control-plane") == 0 ||
			strcmp(labels->list[i].key, "node-role.kubernetes.io/master") == 0)
			return true;
	return false;
}

/* An objection to everything that it announces; NULL: none. */
static const char *
objection_at_all(const struct neighbours *n, const struct neighbour *b)
{
	if (n->config.sites_only && !n->sites)
		return "no Node names a site: label them edgeway.io/site, those of the cloud too";
	if (n->sites && *b->site == '\0')
		return "this node is of no site: label its Node edgeway.io/site";
	return NULL;
}

const char *
neighbours_objection(const struct neighbours *n, const struct neighbour *b, const char *node)
{
	const char *site, *zone, *at_all = objection_at_all(n, b);

	if (strcmp(b->name, node) == 0)
		return "this is the node itself";
	if (cluster_node(n->config.cluster, node, &site, &zone) < 0)
		return "the hub knows no Node of this name";
	if (at_all != NULL)
		return at_all;
	if (strcmp(b->site, site) != 0)
		return *site == '\0' ? "that node is of no site: label its Node edgeway.io/site"
				     : "that node is of another site";
	return is_control_plane(n, node)
		? "a node of the control plane is not reached through neighbours"
		: NULL;
}

static const char *
objection_to(
	const struct neighbours *n, const struct neighbour *b, const struct reachable_nets_entry *e)
{
	if (e->wrong != NULL)
		return e->wrong;
	if (e->node != NULL)
		return neighbours_objection(n, b, e->node);
	return objection_at_all(n, b);
}

static void
look_at(struct neighbours *n, struct neighbour *b)
{
	neighbours_index_remove(n, b);
	table_remove(&n->sites_of, &b->by_site);
	free(b->site);
	b->site = xstrdup(neighbours_site_of(n, b->name));
	table_add(&n->sites_of, &b->by_site, neighbours_hash(b->site));
	for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++)
		b->wrong[i] = objection_to(n, b, &b->vicinity->list[i]);
	neighbours_index_add(n, b);
}

/* Forgets nodes that no longer exist: a later one of the same name is a different node. */
static void
forget_carried(struct neighbours *n)
{
	const char *site, *zone;
	struct table_node *at, *next;
	size_t slot = 0;

	for (at = table_walk(&n->carried, &slot, NULL); at != NULL; at = next) {
		next = table_walk(&n->carried, &slot, at);
		if (cluster_node(n->config.cluster, carried_of(at)->name, &site, &zone) < 0)
			free_carried(n, carried_of(at));
	}
}

void
neighbours_look(struct neighbours *n)
{
	uint64_t changes = cluster_node_changes(n->config.cluster);
	struct table_node *at = NULL;
	size_t slot = 0;

	if (n->looked && n->looked_at == changes)
		return;
	n->looked = true;
	n->looked_at = changes;
	n->sites = cluster_has_sites(n->config.cluster);
	forget_carried(n);
	while ((at = table_walk(&n->all, &slot, at)) != NULL)
		look_at(n, neighbour_of(at));
}

/* --- announcements -------------------------------------------------------------------------- */

static void
write_verdicts(const struct neighbour *b, struct buf *to)
{
	for (size_t i = 0; i < b->vicinity->n; i++)
		buf_printf(to, "%s\n", b->wrong[i] != NULL ? b->wrong[i] : REACHABILITY_OK);
}

static uint64_t
hash_verdicts(const struct neighbour *b)
{
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	write_verdicts(b, &text);
	return hash64(buf_str(&text), buf_len(&text), 0);
}

static void
tell_of(const struct neighbour *b)
{
	size_t refused = 0;

	for (size_t i = 0; i < b->vicinity->n; i++) {
		refused += b->wrong[i] != NULL;
		if (b->wrong[i] != NULL)
			log_limited(LOG_LEVEL_WARN, 20, "hub",
				"an entry of a node's tunnel.reach is refused node=%s "
				"entry=%s reason=\"%s\"",
				b->name, b->vicinity->list[i].text, b->wrong[i]);
	}
	log_limited(LOG_LEVEL_INFO, 60, "hub",
		"a node has declared what it reaches node=%s accepted=%zu refused=%zu", b->name,
		b->vicinity->n - refused, refused);
}

static struct neighbour *
neighbours_use(struct neighbours *n, const char *node)
{
	struct neighbour *b = neighbours_get(n, node);

	if (b != NULL)
		return b;
	b = xcalloc(1, sizeof *b);
	b->name = xstrdup(node);
	b->site = xstrdup("");
	table_add(&n->all, &b->node, neighbours_hash(node));
	table_add(&n->sites_of, &b->by_site, neighbours_hash(b->site));
	return b;
}

/* One of its announcements has changed. An announcement to this hub takes precedence over one to
 * another replica. May free b. */
static void
neighbours_settle(struct neighbours *n, struct neighbour *b)
{
	n->changes++;
	n->n_declared -= b->vicinity != NULL;
	b->vicinity = b->here != NULL ? b->here : b->there;
	n->n_declared += b->vicinity != NULL;
	free(b->wrong);
	free(b->failed_ms);
	b->wrong = NULL;
	b->failed_ms = NULL;
	if (b->vicinity != NULL) {
		b->wrong = xcalloc(MAX(b->vicinity->n, (size_t)1), sizeof *b->wrong);
		b->failed_ms = xcalloc(MAX(b->vicinity->n, (size_t)1), sizeof *b->failed_ms);
		neighbours_look(n);
		look_at(n, b);
	} else if (b->streams == 0) {
		free_neighbour(n, b);
	}
}

static void
tell_replicas(const struct neighbours *n, const char *node)
{
	if (n->config.changed != NULL)
		n->config.changed(n->config.arg, node);
}

void
neighbours_declare(
	struct neighbours *n, const char *node, const char *text, size_t len, struct buf *answer)
{
	struct reachable_nets *fresh;
	struct neighbour *b;
	struct err err = {0};

	if (reachable_nets_parse(text, len, &fresh, &err) < 0) {
		log_limited(LOG_LEVEL_WARN, 6, "hub",
			"a node's declaration cannot be read node=%s error=\"%s\"", node, err.text);
		buf_printf(answer, "%s\n", err.text);
		neighbours_forget(n, node);
		return;
	}
	if (fresh->n == 0) {
		reachable_nets_free(&fresh);
		neighbours_forget(n, node);
		return;
	}
	b = neighbours_use(n, node);
	neighbours_index_remove(n, b);
	reachable_nets_free(&b->here);
	b->here = fresh;
	neighbours_settle(n, b);
	write_verdicts(b, answer);
	if (b->told != hash_verdicts(b))
		tell_of(b);
	b->told = hash_verdicts(b);
	tell_replicas(n, node);
}

void
neighbours_forget(struct neighbours *n, const char *node)
{
	struct neighbour *b = neighbours_get(n, node);

	if (b == NULL || b->here == NULL)
		return;
	neighbours_index_remove(n, b);
	reachable_nets_free(&b->here);
	neighbours_settle(n, b);
	tell_replicas(n, node);
}

/* --- announcements to other replicas -------------------------------------------------------- */

void
neighbours_heard(struct neighbours *n, const void *from, const char *node, const char *entry)
{
	struct neighbour *b = neighbours_get(n, node);

	if (b == NULL && entry == NULL && n->all.n < NEIGHBOURS_MAX)
		b = neighbours_use(n, node);
	if (b == NULL)
		return;
	neighbours_index_remove(n, b);
	if (entry == NULL) {
		reachable_nets_free(&b->there);
		b->there = xcalloc(1, sizeof *b->there);
		b->from = from;
	} else if (b->from == from && b->there != NULL) {
		reachable_nets_add(b->there, entry, strlen(entry));
	}
	neighbours_settle(n, b);
}

static void
drop_there(struct neighbours *n, struct neighbour *b)
{
	b->from = NULL;
	neighbours_index_remove(n, b);
	reachable_nets_free(&b->there);
	neighbours_settle(n, b);
}

void
neighbours_unheard(struct neighbours *n, const void *from, const char *node)
{
	struct table_node *at = NULL, *next;
	size_t slot = 0;

	if (node != NULL) {
		struct neighbour *b = neighbours_get(n, node);

		if (b != NULL && b->from == from)
			drop_there(n, b);
		return;
	}
	for (at = table_walk(&n->all, &slot, NULL); at != NULL; at = next) {
		struct neighbour *b = neighbour_of(at);

		next = table_walk(&n->all, &slot, at);
		if (b->from == from)
			drop_there(n, b);
	}
}

void
neighbours_hand_over(struct neighbours *n, const void *from, const void *to)
{
	struct table_node *at = NULL;
	size_t slot = 0;

	while ((at = table_walk(&n->all, &slot, at)) != NULL)
		if (neighbour_of(at)->from == from)
			neighbour_of(at)->from = to;
}

static void
tell_entries(const struct neighbour *b, neighbours_fn *fn, void *arg)
{
	if (b->here == NULL)
		return;
	fn(arg, b->name, NULL);
	for (size_t i = 0; i < b->here->n; i++)
		fn(arg, b->name, b->here->list[i].text);
}

void
neighbours_each(const struct neighbours *n, const char *node, neighbours_fn *fn, void *arg)
{
	const struct neighbour *b = node != NULL ? neighbours_get(n, node) : NULL;
	struct table_node *at = NULL;
	size_t slot = 0;

	if (b != NULL)
		tell_entries(b, fn, arg);
	while (node == NULL && (at = table_walk(&n->all, &slot, at)) != NULL)
		tell_entries(neighbour_of(at), fn, arg);
}

bool
neighbours_declared(const struct neighbours *n, const char *node)
{
	const struct neighbour *b = neighbours_get(n, node);

	return b != NULL && b->here != NULL;
}

void
neighbours_outdated(struct neighbours *n, void (*tell)(void *arg, const char *node), void *arg)
{
	uint64_t changes = cluster_node_changes(n->config.cluster);
	bool same = n->compared_at == changes;
	struct table_node *at = NULL;
	size_t slot = 0;

	neighbours_look(n);
	n->compared_at = changes;
	while (!same && (at = table_walk(&n->all, &slot, at)) != NULL) {
		const struct neighbour *b = neighbour_of(at);

		if (b->here != NULL && b->told != hash_verdicts(b))
			tell(arg, b->name);
	}
}
