#include "hub/sync/fanout.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/core/hash.h"
#include "model/bundle.h"
#include "model/pod_name.h"

/* Placeholder for a session's msg_id; no other text of a frame's head can contain it. */
#define ID_PLACE "00000000-0000-4000-8000-000000000000"

struct entry {
	struct fanout_item item; /* first: an item is its entry */
	struct entry *next_hash;
	struct entry *next_bucket, **at_bucket;
	/* at_narrowed NULL: the item is for all nodes */
	struct entry *next_narrowed, **at_narrowed;
	struct selector *nodes;
	char *nodes_text, *pod_node;
	unsigned holds;
	/* a pod by its address: nodes that want it; while it is present and none does, it is in
	 * fanout.unwanted */
	unsigned wanted;
	bool is_unwanted;
	TAILQ_ENTRY(entry) unwanted;
	char *frame;
};

struct fanout {
	struct entry **table; /* hash table, n_table is a power of two */
	size_t n_table, n_entries, n_present;
	struct entry *bucket[DIGEST_BUCKETS];
	struct entry **slot; /* indexed by item number */
	uint32_t n_slots, room;
	uint32_t *unused; /* free numbers below n_slots */
	uint32_t n_unused;
	struct entry *narrowed;
	TAILQ_HEAD(, entry) unwanted; /* the longest first */
	size_t n_unwanted;
	const struct fanout_item *bundled; /* the item of the cached bundle; NULL: none */
	struct buf bundle;
	struct digests digests;
	struct fanout_watch *watches;
};

struct fanout *
fanout_new(void)
{
	struct fanout *f = xcalloc(1, sizeof *f);

	f->n_table = 64;
	TAILQ_INIT(&f->unwanted);
	buf_init(&f->bundle, BUF_UNLIMITED);
	f->table = xcalloc(f->n_table, sizeof *f->table);
	return f;
}

static void
entry_free(struct entry *e)
{
	selector_free(&e->nodes);
	free(e->nodes_text);
	free(e->pod_node);
	free(e->frame);
	free((void *)(uintptr_t)e->item.key);
	free(e);
}

void
fanout_free(struct fanout **out)
{
	struct fanout *f = take_ptr(out);

	if (f == NULL)
		return;
	assert(f->watches == NULL);
	for (uint32_t i = 0; i < f->n_slots; i++) {
		if (f->slot[i] != NULL)
			entry_free(f->slot[i]);
	}
	buf_fini(&f->bundle);
	free(f->slot);
	free(f->unused);
	free(f->table);
	free(f);
}

void
fanout_watch_start(struct fanout *f, struct fanout_watch *w, fanout_fn *changed,
	fanout_settled_fn *settled, void *arg)
{
	w->changed = changed;
	w->settled = settled;
	w->arg = arg;
	w->next = f->watches;
	w->at = &f->watches;
	if (w->next != NULL)
		w->next->at = &w->next;
	f->watches = w;
}

void
fanout_watch_stop(struct fanout_watch *w)
{
	if (w->at == NULL)
		return;
	*w->at = w->next;
	if (w->next != NULL)
		w->next->at = w->at;
	w->at = NULL;
}

static void
forget_bundle(struct fanout *f)
{
	f->bundled = NULL;
	buf_consume(&f->bundle, buf_len(&f->bundle));
	buf_release(&f->bundle);
}

static void
fanout_tell(struct fanout *f, struct entry *e)
{
	struct fanout_watch *next;

	forget_bundle(f);
	/* A watcher may stop itself, but not another one: closing a connection is only started
	 * here. */
	for (struct fanout_watch *w = f->watches; w != NULL; w = next) {
		next = w->next;
		w->changed(w->arg, &e->item);
	}
}

void
fanout_settle(struct fanout *f)
{
	struct fanout_watch *next;

	for (struct fanout_watch *w = f->watches; w != NULL; w = next) {
		next = w->next;
		w->settled(w->arg);
	}
	forget_bundle(f);
}

static struct entry **
fanout_place(const struct fanout *f, const char *key)
{
	size_t n = hash64(key, strlen(key), 0) & (f->n_table - 1);
	struct entry **at = &f->table[n];

	while (*at != NULL && strcmp((*at)->item.key, key) != 0)
		at = &(*at)->next_hash;
	return at;
}

static void
fanout_grow(struct fanout *f)
{
	size_t n = f->n_table;
	struct entry **old = f->table;

	f->n_table = n * 2;
	f->table = xcalloc(f->n_table, sizeof *f->table);
	for (size_t i = 0; i < n; i++) {
		for (struct entry *e = old[i], *next; e != NULL; e = next) {
			struct entry **at;

			next = e->next_hash;
			e->next_hash = NULL;
			at = fanout_place(f, e->item.key);
			*at = e;
		}
	}
	free(old);
}

static uint32_t
fanout_number(struct fanout *f)
{
	if (f->n_unused > 0)
		return f->unused[--f->n_unused];
	if (f->n_slots == f->room) {
		f->room = f->room > 0 ? f->room * 2 : 64;
		f->slot = xrealloc(f->slot, f->room * sizeof *f->slot);
		f->unused = xrealloc(f->unused, f->room * sizeof *f->unused);
	}
	return f->n_slots++;
}

/* Sets the frame for the entry's current state: its view, or a deletion. */
static void
set_frame(struct entry *e, char *frame, size_t len)
{
	const char *id = strstr(frame, ID_PLACE);

	assert(id != NULL);
	free(e->frame);
	e->frame = frame;
	e->item.frame = frame;
	e->item.frame_len = len;
	e->item.id_at = (size_t)(id - frame);
}

/* If json is empty, builds a deletion. */
static void
fanout_build(struct buf *out, const char *key, const char *json, size_t len, const char *id)
{
	const char *slash = strchr(key, '/');
	auto_free char *resource = xasprintf("%.*s/service/%s", (int)(slash - key), key, slash + 1);
	const struct saying say = {
		.source = "edgeway-hub",
		.operation = len > 0 ? OP_UPDATE : OP_DELETE,
		.resource = resource,
		.content = json,
		.content_len = len,
	};

	envelope_say(out, &say, id);
}

void
fanout_say_gone(struct buf *out, const struct fanout_item *item, const char *id)
{
	fanout_build(out, item->key, "", 0, id);
}

static void
make_deletion(struct entry *e)
{
	auto_buf struct buf b;
	size_t len;

	buf_init(&b, BUF_UNLIMITED);
	fanout_build(&b, e->item.key, "", 0, ID_PLACE);
	len = buf_len(&b);
	set_frame(e, buf_take_str(&b), len);
	e->item.present = false;
	e->item.digest = 0;
	e->item.content = "";
	e->item.content_len = 0;
}

/* text: a selector that the model has already accepted, or "". restricted: not for all agents. */
static void
set_nodes(struct fanout *f, struct entry *e, const char *text, bool restricted)
{
	struct err err = {0};
	int rc;

	if (e->at_narrowed != NULL) {
		*e->at_narrowed = e->next_narrowed;
		if (e->next_narrowed != NULL)
			e->next_narrowed->at_narrowed = e->at_narrowed;
		e->at_narrowed = NULL;
	}
	free(e->nodes_text);
	e->nodes_text = xstrdup(text);
	rc = selector_parse(&e->nodes, text, &err);
	assert(rc == 0);
	e->item.nodes = e->nodes;
	e->item.restricted = restricted;
	if (e->nodes == NULL && !restricted && !(e->item.pod && e->item.present))
		return;
	e->next_narrowed = f->narrowed;
	e->at_narrowed = &f->narrowed;
	if (e->next_narrowed != NULL)
		e->next_narrowed->at_narrowed = &e->next_narrowed;
	f->narrowed = e;
}

static struct entry *
entry_of(struct fanout_item *item)
{
	return container_of(item, struct entry, item);
}

/* Puts it last among those that no node wants, or takes it out. */
static void
fanout_settle_unwanted(struct fanout *f, struct entry *e)
{
	if (e->is_unwanted) {
		TAILQ_REMOVE(&f->unwanted, e, unwanted);
		f->n_unwanted--;
	}
	e->is_unwanted = e->item.pod && e->item.present && e->wanted == 0;
	if (e->is_unwanted) {
		TAILQ_INSERT_TAIL(&f->unwanted, e, unwanted);
		f->n_unwanted++;
	}
}

void
fanout_want_pod(struct fanout *f, struct fanout_item *item)
{
	fanout_hold(item);
	entry_of(item)->wanted++;
	fanout_settle_unwanted(f, entry_of(item));
}

void
fanout_unwant_pod(struct fanout *f, struct fanout_item *item)
{
	assert(entry_of(item)->wanted > 0);
	entry_of(item)->wanted--;
	fanout_settle_unwanted(f, entry_of(item));
	fanout_release(f, item);
}

void
fanout_touch_pod(struct fanout *f, struct fanout_item *item)
{
	fanout_settle_unwanted(f, entry_of(item));
}

void
fanout_forget_pods(struct fanout *f, struct cluster *c)
{
	while (f->n_unwanted > FANOUT_PODS_UNWANTED) {
		struct entry *e = TAILQ_FIRST(&f->unwanted);
		const char *slash = strchr(e->item.key, '/');
		auto_free char *ns = xstrndup(e->item.key, (size_t)(slash - e->item.key));

		TAILQ_REMOVE(&f->unwanted, e, unwanted);
		f->n_unwanted--;
		e->is_unwanted = false;
		cluster_pod_unwant(c, ns, slash + 1);
	}
}

static const char *
fanout_pod_node(const struct view *v)
{
	for (size_t i = 0; i < v->n_ports; i++)
		if (v->ports[i].n_endpoints > 0)
			return v->ports[i].endpoints[0].node;
	return "";
}

/* Sets the nodes that the item is for, and tells the watchers; change NULL: it was removed; before:
 * whether it was present. */
static void
settle_item(struct fanout *f, struct entry *e, const struct cluster_change *change, bool before)
{
	struct selector *was = e->nodes;
	auto_free char *was_pod_node = e->pod_node;

	e->pod_node = xstrdup(change != NULL && e->item.pod ? fanout_pod_node(change->view) : "");
	e->item.pod_node = e->pod_node;
	e->item.was_pod_node = was_pod_node;
	e->item.was_restricted = e->item.restricted;
	set_nodes(f, e, change != NULL ? change->nodes : "",
		change != NULL && view_restricted(change->view));
	if (before != e->item.present)
		fanout_settle_unwanted(f, e);
	e->item.was_present = before;
	e->item.was_nodes = was;
	fanout_tell(f, e);
	e->item.was_nodes = NULL;
	e->item.was_pod_node = NULL;
	selector_free(&was);
}

/* A name with a dot is a pod of a headless service: its view is not reported as idle, only the
 * service's. */
static struct fanout_counts
fanout_count_view(const struct view *v, const char *name)
{
	struct fanout_counts c = {.headless = v->headless,
		.external = v->external_name != NULL && v->external_name[0] != '\0'};

	for (size_t p = 0; p < v->n_ports; p++) {
		const struct view_port *port = &v->ports[p];
		uint16_t ready = 0;

		c.ports += !port->extra;
		for (size_t e = 0; e < port->n_endpoints; e++)
			ready += (port->endpoints[e].flags & (ENDPOINT_READY | ENDPOINT_SERVING)) !=
				0;
		c.endpoints = (uint16_t)MAX((size_t)c.endpoints, port->n_endpoints);
		c.ready = MAX(c.ready, ready);
	}
	c.idle = c.ports > 0 && c.ready == 0 && !c.external && strchr(name, '.') == NULL;
	return c;
}

static struct entry *
fanout_insert(struct fanout *f, const char *key)
{
	struct entry *e = xcalloc(1, sizeof *e);
	unsigned bucket = digest_bucket(key, strlen(key));

	if (f->n_entries >= f->n_table)
		fanout_grow(f);
	e->item.key = xstrdup(key);
	e->nodes_text = xstrdup("");
	e->pod_node = xstrdup("");
	e->item.pod_node = e->pod_node;
	e->item.pod = pod_name_is(strchr(key, '/') + 1, strlen(strchr(key, '/') + 1));
	e->item.index = fanout_number(f);
	f->slot[e->item.index] = e;
	*fanout_place(f, key) = e;
	e->next_bucket = f->bucket[bucket];
	e->at_bucket = &f->bucket[bucket];
	if (e->next_bucket != NULL)
		e->next_bucket->at_bucket = &e->next_bucket;
	f->bucket[bucket] = e;
	f->n_entries++;
	return e;
}

static void
fanout_drop(struct fanout *f, struct entry *e)
{
	forget_bundle(f);
	*fanout_place(f, e->item.key) = e->next_hash;
	*e->at_bucket = e->next_bucket;
	if (e->next_bucket != NULL)
		e->next_bucket->at_bucket = e->at_bucket;
	f->slot[e->item.index] = NULL;
	f->unused[f->n_unused++] = e->item.index;
	f->n_entries--;
	entry_free(e);
}

bool
fanout_set(struct fanout *f, const struct cluster_change *change)
{
	auto_free char *key = xasprintf("%s/%s", change->ns, change->name);
	struct entry *e = *fanout_place(f, key);
	auto_buf struct buf b;
	bool before;
	size_t len;

	buf_init(&b, BUF_UNLIMITED);
	if (e != NULL && e->item.present && e->item.digest == change->digest &&
		strcmp(e->nodes_text, change->nodes) == 0)
		return false;
	fanout_build(&b, key, change->json, change->json_len, ID_PLACE);
	len = buf_len(&b);
	assert(len <= ENVELOPE_MAX_BYTES); /* the cluster refuses larger ones */
	if (e == NULL)
		e = fanout_insert(f, key);
	before = e->item.present;
	if (before)
		digest_toggle(&f->digests, key, strlen(key), e->item.digest);
	else
		f->n_present++;
	set_frame(e, buf_take_str(&b), len);
	e->item.present = true;
	e->item.digest = change->digest;
	e->item.counts = fanout_count_view(change->view, change->name);
	/* the envelope ends with its content */
	e->item.content = e->frame + len - 1 - change->json_len;
	e->item.content_len = change->json_len;
	digest_toggle(&f->digests, key, strlen(key), change->digest);
	settle_item(f, e, change, before);
	return true;
}

bool
fanout_remove(struct fanout *f, const char *ns, const char *name)
{
	auto_free char *key = xasprintf("%s/%s", ns, name);
	struct entry *e = *fanout_place(f, key);

	if (e == NULL || !e->item.present)
		return false;
	digest_toggle(&f->digests, key, strlen(key), e->item.digest);
	f->n_present--;
	make_deletion(e);
	e->holds++;
	settle_item(f, e, NULL, true);
	fanout_release(f, &e->item);
	return true;
}

const struct digests *
fanout_digests(const struct fanout *f)
{
	return &f->digests;
}

size_t
fanout_count(const struct fanout *f)
{
	return f->n_present;
}

uint32_t
fanout_slots(const struct fanout *f)
{
	return f->n_slots;
}

struct fanout_item *
fanout_find(const struct fanout *f, const char *key)
{
	struct entry *e = *fanout_place(f, key);

	return e != NULL ? &e->item : NULL;
}

struct fanout_item *
fanout_use(struct fanout *f, const char *key)
{
	struct entry *e = *fanout_place(f, key);

	if (e == NULL) {
		e = fanout_insert(f, key);
		make_deletion(e);
	}
	return &e->item;
}

struct fanout_item *
fanout_at(const struct fanout *f, uint32_t index)
{
	return index < f->n_slots && f->slot[index] != NULL ? &f->slot[index]->item : NULL;
}

/* Within the bundle the message has no id of its own, so that it is the same for all nodes. */
static void
make_bundle(struct fanout *f, const struct fanout_item *item)
{
	auto_buf struct buf line;

	buf_init(&line, BUF_UNLIMITED);
	buf_add(&line, item->frame, item->id_at);
	buf_add(&line, item->frame + item->id_at + FANOUT_ID_LEN,
		item->frame_len - item->id_at - FANOUT_ID_LEN);
	buf_adds(&line, "\n");
	forget_bundle(f);
	f->bundled = item;
	bundle_build(&f->bundle, "edgeway-hub", ID_PLACE, &line);
	buf_str(&f->bundle);
}

bool
fanout_bundle(struct fanout *f, const struct fanout_item *item, struct fanout_frame *to)
{
	if (f->bundled != item)
		make_bundle(f, item);
	to->frame = buf_at(&f->bundle);
	to->len = buf_len(&f->bundle);
	to->id_at = (size_t)(strstr(to->frame, ID_PLACE) - to->frame);
	return to->len < item->frame_len;
}

struct fanout_item *
fanout_in_bucket(const struct fanout *f, unsigned bucket, struct fanout_item *last)
{
	struct entry *e = last != NULL ? entry_of(last)->next_bucket : f->bucket[bucket];

	return e != NULL ? &e->item : NULL;
}

struct fanout_item *
fanout_narrowed(const struct fanout *f, struct fanout_item *last)
{
	struct entry *e = last != NULL ? entry_of(last)->next_narrowed : f->narrowed;

	return e != NULL ? &e->item : NULL;
}

void
fanout_hold(struct fanout_item *item)
{
	entry_of(item)->holds++;
}

void
fanout_release(struct fanout *f, struct fanout_item *item)
{
	struct entry *e = entry_of(item);

	assert(e->holds > 0);
	if (--e->holds == 0 && !e->item.present)
		fanout_drop(f, e);
}

static bool
fanout_is_idle(const struct fanout *f, uint32_t index)
{
	const struct entry *e = f->slot[index];

	return e != NULL && e->item.present && e->item.counts.idle;
}

static void
fanout_tell_idle(const char *key, struct metrics *m)
{
	const char *slash = strchr(key, '/');
	auto_free char *ns = xstrndup(key, (size_t)(slash - key));
	char labels[512], of[128], name[300];

	snprintf(labels, sizeof labels, "%s,%s", metric_label(of, sizeof of, "namespace", ns),
		metric_label(name, sizeof name, "service", slash + 1));
	metric_gauge(m, "edgeway_hub_service_without_endpoints",
		"1 for each service without an endpoint that serves; of many, some.", labels, 1);
}

void
fanout_metrics(const struct fanout *f, struct metrics *m)
{
	unsigned idle = 0, told = 0;

	for (uint32_t i = 0; i < f->n_slots; i++)
		idle += fanout_is_idle(f, i);
	metric_gauge(m, "edgeway_hub_services", "Services that nodes are told of.", NULL,
		(double)f->n_present);
	metric_gauge(m, "edgeway_hub_services_without_endpoints",
		"Services with ports, and without an endpoint that serves.", NULL, (double)idle);
	for (uint32_t i = 0; i < f->n_slots && told < FANOUT_IDLE_TOLD; i++) {
		if (!fanout_is_idle(f, i))
			continue;
		fanout_tell_idle(f->slot[i]->item.key, m);
		told++;
	}
}
