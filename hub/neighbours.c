#include "hub/neighbours.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "model/check.h"
#include "model/json.h"
#include "model/table.h"

enum { CANDIDATES_MAX = 64 };

#define neighbour_of(entry) container_of(entry, struct neighbour, node)
#define neighbour_in(entry) container_of(entry, struct neighbour, by_site)
#define carried_of(entry) container_of(entry, struct carried, node)

/* A node that has declared something. */
struct neighbour {
	struct table_node node, by_site;
	char *name, *site; /* "" where none is named */
	struct vicinity *vicinity; /* NULL: nothing any more; it is kept for its count */
	const char *wrong[VICINITY_MAX]; /* why an entry does not count; as of the last look */
	uint64_t failed_ms
		[VICINITY_MAX]; /* the last dial by this entry; 0: it worked, or there was none */
	uint64_t told; /* hash of what it was answered */
	uint64_t streams;
};

/* A node that was reached through a neighbour once: it is at the edge, and stays there. */
struct carried {
	struct table_node node;
	char *name;
	char via[MESH_NODE_MAX + 1]; /* "": its own tunnel is back */
};

struct neighbours {
	struct neighbours_config config;
	struct table all, sites_of, carried; /* sites_of: neighbours by their site */
	size_t n_declared;
	bool sites; /* some Node names a site */
	bool looked;
	uint64_t looked_at; /* changes of Nodes then */
	uint64_t worked, failed;
};

struct neighbours *
neighbours_new(const struct neighbours_config *config)
{
	struct neighbours *n = xcalloc(1, sizeof *n);

	n->config = *config;
	return n;
}

static uint64_t
hash_of(const char *node)
{
	return hash64(node, strlen(node), 0);
}

static struct neighbour *
find(const struct neighbours *n, const char *node)
{
	struct table_node *at = table_first(&n->all, hash_of(node));

	for (; at != NULL; at = table_next(at))
		if (strcmp(neighbour_of(at)->name, node) == 0)
			return neighbour_of(at);
	return NULL;
}

static struct carried *
find_carried(const struct neighbours *n, const char *node)
{
	struct table_node *at = table_first(&n->carried, hash_of(node));

	for (; at != NULL; at = table_next(at))
		if (strcmp(carried_of(at)->name, node) == 0)
			return carried_of(at);
	return NULL;
}

static void
free_neighbour(struct neighbours *n, struct neighbour *b)
{
	table_remove(&n->all, &b->node);
	table_remove(&n->sites_of, &b->by_site);
	vicinity_free(&b->vicinity);
	free(b->name);
	free(b->site);
	free(b);
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
	for (slot = 0; (at = table_walk(&n->carried, &slot, NULL)) != NULL; slot = 0) {
		struct carried *c = carried_of(at);

		table_remove(&n->carried, at);
		free(c->name);
		free(c);
	}
	table_fini(&n->all);
	table_fini(&n->sites_of);
	table_fini(&n->carried);
	free(n);
}

/* --- what counts ------------------------------------------------------------------------------------------ */

static const char *
site_of(const struct neighbours *n, const char *node)
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

/* Why the node is not to be reached through this one; NULL: it may be. */
static const char *
objection(const struct neighbours *n, const struct neighbour *b, const char *node)
{
	const char *site, *zone;

	if (strcmp(b->name, node) == 0)
		return "this is the node itself";
	if (cluster_node(n->config.cluster, node, &site, &zone) < 0)
		return "the hub knows no Node of this name";
	if (n->sites && *b->site == '\0')
		return "this node is of no site: label its Node edgeway.io/site";
	if (strcmp(b->site, site) != 0)
		return *site == '\0' ? "that node is of no site: label its Node edgeway.io/site"
				     : "that node is of another site";
	return is_control_plane(n, node)
		? "a node of the control plane is not reached through neighbours"
		: NULL;
}

static const char *
objection_to(const struct neighbours *n, const struct neighbour *b, const struct vicinity_entry *e)
{
	if (e->wrong != NULL)
		return e->wrong;
	if (e->node != NULL)
		return objection(n, b, e->node);
	if (n->sites && *b->site == '\0')
		return "this node is of no site: label its Node edgeway.io/site";
	return NULL;
}

static void
look_at(struct neighbours *n, struct neighbour *b)
{
	table_remove(&n->sites_of, &b->by_site);
	free(b->site);
	b->site = xstrdup(site_of(n, b->name));
	table_add(&n->sites_of, &b->by_site, hash_of(b->site));
	for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++)
		b->wrong[i] = objection_to(n, b, &b->vicinity->list[i]);
}

/* Sites and Nodes may be others than before. */
static void
look(struct neighbours *n)
{
	uint64_t changes = cluster_node_changes(n->config.cluster);
	struct table_node *at = NULL;
	size_t slot = 0;

	if (n->looked && n->looked_at == changes)
		return;
	n->looked = true;
	n->looked_at = changes;
	n->sites = cluster_has_sites(n->config.cluster);
	while ((at = table_walk(&n->all, &slot, at)) != NULL)
		look_at(n, neighbour_of(at));
}

/* --- declarations ------------------------------------------------------------------------------------------ */

static void
write_verdicts(const struct neighbour *b, struct buf *to)
{
	for (size_t i = 0; i < b->vicinity->n; i++)
		buf_printf(to, "%s\n", b->wrong[i] != NULL ? b->wrong[i] : DECLARATION_OK);
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
				"a node declares a neighbour that it cannot stand for node=%s "
				"entry=%s reason=\"%s\"",
				b->name, b->vicinity->list[i].text, b->wrong[i]);
	}
	log_limited(LOG_LEVEL_INFO, 60, "hub",
		"a node has declared what it reaches node=%s accepted=%zu refused=%zu", b->name,
		b->vicinity->n - refused, refused);
}

void
neighbours_declare(
	struct neighbours *n, const char *node, const char *text, size_t len, struct buf *answer)
{
	struct neighbour *b = find(n, node);
	struct vicinity *fresh;
	struct err err = {0};

	if (vicinity_parse(text, len, &fresh, &err) < 0) {
		log_limited(LOG_LEVEL_WARN, 6, "hub",
			"a node's declaration cannot be read node=%s error=\"%s\"", node, err.text);
		buf_printf(answer, "%s\n", err.text);
		neighbours_forget(n, node);
		return;
	}
	if (fresh->n == 0) {
		vicinity_free(&fresh);
		neighbours_forget(n, node);
		return;
	}
	if (b == NULL) {
		b = xcalloc(1, sizeof *b);
		b->name = xstrdup(node);
		b->site = xstrdup("");
		table_add(&n->all, &b->node, hash_of(node));
		table_add(&n->sites_of, &b->by_site, hash_of(b->site));
	}
	n->n_declared += b->vicinity == NULL;
	vicinity_free(&b->vicinity);
	b->vicinity = fresh;
	memset(b->failed_ms, 0, sizeof b->failed_ms);
	look(n);
	look_at(n, b);
	write_verdicts(b, answer);
	if (b->told != hash_verdicts(b))
		tell_of(b);
	b->told = hash_verdicts(b);
}

void
neighbours_forget(struct neighbours *n, const char *node)
{
	struct neighbour *b = find(n, node);

	if (b == NULL)
		return;
	n->n_declared -= b->vicinity != NULL;
	vicinity_free(&b->vicinity);
	if (b->streams == 0)
		free_neighbour(n, b);
}

bool
neighbours_declared(const struct neighbours *n, const char *node)
{
	const struct neighbour *b = find(n, node);

	return b != NULL && b->vicinity != NULL;
}

void
neighbours_outdated(struct neighbours *n, void (*tell)(void *arg, const char *node), void *arg)
{
	bool same = n->looked && n->looked_at == cluster_node_changes(n->config.cluster);
	struct table_node *at = NULL;
	size_t slot = 0;

	look(n);
	while (!same && (at = table_walk(&n->all, &slot, at)) != NULL) {
		const struct neighbour *b = neighbour_of(at);

		if (b->vicinity != NULL && b->told != hash_verdicts(b))
			tell(arg, b->name);
	}
}

/* --- finding ------------------------------------------------------------------------------------------------ */

/* A node that the hub dials itself, unless named sites say that it cannot be the one that it would find there. */
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

/* The entry by which the neighbour stands for what is asked for; -1: none, and *why may tell of one that nearly does. */
static int
entry_for(const struct neighbours *n, const struct neighbour *b, const struct neighbours_ask *ask,
	const char **why)
{
	int found = -1;

	for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++) {
		const struct vicinity_entry *e = &b->vicinity->list[i];

		if (b->wrong[i] != NULL || !vicinity_covers(e, ask->node, &ask->ip))
			continue;
		if (ask->port != 0 && !vicinity_opens(e, ask->port))
			*why = "no neighbour's tunnel.reach opens this port";
		else if (found < 0 || b->failed_ms[i] < b->failed_ms[found])
			found = (int)i;
	}
	if (strcmp(ask->node, VICINITY_ANY) == 0)
		return strcmp(b->site, ask->site) == 0 ? found : -1;
	return found >= 0 && objection(n, b, ask->node) != NULL ? -1 : found;
}

/* Neighbours that may stand for it are of its site. */
static struct table_node *
first_of_site(const struct neighbours *n, const struct neighbours_ask *ask)
{
	bool any = strcmp(ask->node, VICINITY_ANY) == 0;

	return table_first(&n->sites_of, hash_of(any ? ask->site : site_of(n, ask->node)));
}

struct candidate {
	const struct neighbour *by;
	unsigned entry, streams;
};

/* Those that worked last, then those that failed longest ago; among equals the one with less to do. */
static int
compare(const void *a, const void *b)
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
	look(n);
	if (strcmp(ask->node, VICINITY_ANY) != 0)
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
			found[count++] = (struct candidate){
				b, (unsigned)entry, n->config.streams(n->config.arg, b->name)};
	}
	qsort(found, count, sizeof *found, compare);
	for (size_t i = 0; i < MIN(count, room); i++) {
		snprintf(ways[i].via, sizeof ways[i].via, "%s", found[i].by->name);
		ways[i].entry = found[i].entry;
	}
	return MIN(count, room);
}

bool
neighbours_stand_for(struct neighbours *n, const char *node)
{
	struct neighbours_ask ask = {.node = node};
	struct table_node *at;
	const char *why;

	if (find_carried(n, node) != NULL)
		return true;
	if (n->n_declared == 0)
		return false;
	look(n);
	ask.ip = address_of(n, node);
	if (!n->sites && is_ours(n, &ask.ip))
		return false;
	for (at = first_of_site(n, &ask); at != NULL; at = table_next(at))
		if (entry_for(n, neighbour_in(at), &ask, &why) >= 0)
			return true;
	return false;
}

/* Does one of its networks hold the address? */
static bool
holds(const struct neighbour *b, const struct in6_addr *ip)
{
	for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++)
		if (b->wrong[i] == NULL && b->vicinity->list[i].node == NULL &&
			vicinity_covers(&b->vicinity->list[i], VICINITY_ANY, ip))
			return true;
	return false;
}

static void
add_site(const struct neighbour *b, struct neighbours_site *sites, size_t room, size_t *count)
{
	size_t i = 0;

	while (i < MIN(*count, room) && strcmp(sites[i].site, b->site) != 0)
		i++;
	if (i < MIN(*count, room)) { /* the same one of its neighbours each time */
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
	look(n);
	while ((at = table_walk(&n->all, &slot, at)) != NULL)
		if (holds(neighbour_of(at), ip))
			add_site(neighbour_of(at), sites, room, &count);
	return count;
}

bool
neighbours_declares(
	struct neighbours *n, const char *via, const struct neighbours_ask *ask, const char **site)
{
	const struct neighbour *b = find(n, via);
	struct neighbours_ask full = *ask;
	const char *why;

	look(n);
	if (b == NULL)
		return false;
	*site = full.site = b->site;
	full.port = 0;
	if (strcmp(ask->node, VICINITY_ANY) != 0)
		full.ip = address_of(n, ask->node);
	return entry_for(n, b, &full, &why) >= 0;
}

/* --- what became of it -------------------------------------------------------------------------------------- */

static void
note_carried(struct neighbours *n, const char *meant, const char *via)
{
	struct carried *c = find_carried(n, meant);

	if (c == NULL) {
		c = xcalloc(1, sizeof *c);
		c->name = xstrdup(meant);
		table_add(&n->carried, &c->node, hash_of(meant));
	}
	if (strcmp(c->via, via) == 0)
		return;
	log_limited(LOG_LEVEL_INFO, 20, "hub",
		"a node without a tunnel is reached through a neighbour node=%s via=%s", meant,
		via);
	snprintf(c->via, sizeof c->via, "%s", via);
}

void
neighbours_result(
	struct neighbours *n, const char *meant, const struct neighbours_way *way, bool worked)
{
	struct neighbour *b = find(n, way->via);

	n->worked += worked;
	n->failed += !worked;
	if (b == NULL || way->entry >= VICINITY_MAX)
		return;
	b->failed_ms[way->entry] = worked ? 0 : loop_now_ms(n->config.loop);
	b->streams += worked;
	if (worked && strcmp(meant, VICINITY_ANY) != 0)
		note_carried(n, meant, way->via);
}

void
neighbours_own(struct neighbours *n, const char *node)
{
	struct carried *c = find_carried(n, node);

	if (c == NULL || c->via[0] == '\0')
		return;
	log_info("hub",
		"a node's own tunnel takes over; what its neighbour carries finishes node=%s "
		"via=%s",
		node, c->via);
	c->via[0] = '\0';
}

/* --- telling -------------------------------------------------------------------------------------------------- */

static const char *
state_of(const struct neighbours *n, const struct neighbour *b, size_t i)
{
	const char *node = b->vicinity->list[i].node;
	const struct carried *c = node != NULL ? find_carried(n, node) : NULL;

	if (b->wrong[i] != NULL)
		return "refused";
	if (node != NULL && n->config.tunnelled(n->config.arg, node))
		return "has its own tunnel";
	return c != NULL && strcmp(c->via, b->name) == 0 ? "carried" : "ready";
}

void
neighbours_state(struct neighbours *n, struct buf *out)
{
	struct table_node *at = NULL;
	const char *comma = "";
	size_t slot = 0;

	look(n);
	buf_adds(out, "[");
	while ((at = table_walk(&n->all, &slot, at)) != NULL) {
		const struct neighbour *b = neighbour_of(at);

		for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++) {
			buf_printf(out, "%s{\"node\":", comma);
			json_add_text(out, b->vicinity->list[i].text);
			buf_adds(out, ",\"via\":");
			json_add_text(out, b->name);
			buf_adds(out, ",\"site\":");
			json_add_text(out, b->site);
			buf_printf(out, ",\"state\":\"%s\",\"streams\":%llu,\"problem\":",
				state_of(n, b, i), (unsigned long long)b->streams);
			json_add_text(out, b->wrong[i] != NULL ? b->wrong[i] : "");
			buf_adds(out, "}");
			comma = ",";
		}
	}
	buf_adds(out, "]");
}

static void
count_entries(const struct neighbours *n, size_t *accepted, size_t *refused)
{
	struct table_node *at = NULL;
	size_t slot = 0;

	while ((at = table_walk(&n->all, &slot, at)) != NULL) {
		const struct neighbour *b = neighbour_of(at);

		for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++)
			++*(b->wrong[i] == NULL ? accepted : refused);
	}
}

void
neighbours_metrics(struct neighbours *n, struct metrics *m)
{
	static const char entries[] = "edgeway_hub_neighbour_entries",
			  help[] = "What nodes have declared to reach beside themselves.";
	struct table_node *at = NULL;
	size_t slot = 0, accepted = 0, refused = 0;
	char label[300];

	look(n);
	count_entries(n, &accepted, &refused);
	metric_gauge(m, entries, help, "state=\"accepted\"", (double)accepted);
	metric_gauge(m, entries, help, "state=\"refused\"", (double)refused);
	metric_counter(m, "edgeway_hub_neighbour_dials_total",
		"Streams opened through a neighbour of the node that was meant.", "result=\"ok\"",
		n->worked);
	metric_counter(m, "edgeway_hub_neighbour_dials_total",
		"Streams opened through a neighbour of the node that was meant.",
		"result=\"failed\"", n->failed);
	while ((at = table_walk(&n->all, &slot, at)) != NULL) {
		const struct neighbour *b = neighbour_of(at);

		metric_counter(m, "edgeway_hub_neighbour_streams_total",
			"Streams that a node has carried for others beside it.",
			metric_label(label, sizeof label, "via", b->name), b->streams);
	}
}
