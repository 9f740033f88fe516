#include "meta/state/apply.h"

#include <errno.h>
#include <string.h>

#include "base/core/log.h"
#include "meta/state/apply_private.h"
#include "meta/state/load.h"
#include "model/local_callers.h"

enum {
	UNACKED_MAX = 4096, /* the hub's window is 256 */
	ADDRESS_RETRY_MS = 60 * 1000,
};

uint64_t
apply_clock_ms(const struct apply *a)
{
	return a->wall_at_start_ms + (mono_ms() - a->mono_at_start_ms);
}

static void
read_identity(struct apply *a, struct store *store)
{
	a->site = store != NULL ? store_note(store, "site") : NULL;
	a->zone = store != NULL ? store_note(store, "zone") : NULL;
	if (a->site == NULL)
		a->site = xstrdup("");
	if (a->zone == NULL)
		a->zone = xstrdup("");
}

static int
read_services(struct apply *a, struct store *store, struct err *err)
{
	struct self self = self_of(a);
	struct load load = {
		.store = store, .ipam = a->ipam, .self = &self, .now_ms = apply_clock_ms(a)};
	struct load_result result = {0};
	int rc;

	if (store == NULL) {
		a->snapshot = snapshot_new(false);
		return 0;
	}
	if ((rc = load_services(&load, &result, err)) < 0)
		return rc;
	if (a->snapshot != NULL)
		unref_snapshot(&a->snapshot);
	a->snapshot = result.snapshot;
	a->noted = result.synced;
	a->known = result.synced || snapshot_count(a->snapshot) > 0;
	a->counts.dropped = result.dropped;
	a->counts.moved = result.moved;
	a->counts.exhausted = result.exhausted;
	for (size_t i = 0; i < snapshot_count(a->snapshot); i++)
		apply_tell_refused(snapshot_at(a->snapshot, i));
	if (result.dropped + result.moved + result.exhausted > 0)
		log_warn("meta",
			"the database was put right damaged_services=%zu new_addresses=%zu "
			"without_address=%zu",
			result.dropped, result.moved, result.exhausted);
	return 0;
}

static void
use_callers(struct apply *a, struct local_callers *callers)
{
	const struct snapshot *next = snapshot_with_callers(a->snapshot, callers);

	unref_snapshot(&a->snapshot);
	a->snapshot = next;
}

/* The local callers known when the hub was last heard; callers added since then are unknown and
 * refused. */
static void
read_callers(struct apply *a, struct store *store)
{
	struct local_callers *callers;
	struct err err = {0};

	a->callers = store != NULL ? store_note(store, "callers") : NULL;
	if (a->callers == NULL)
		return;
	if (local_callers_parse(&callers, a->callers, strlen(a->callers), &err) == 0)
		use_callers(a, callers);
	else
		log_warn("meta",
			"the pods of this node cannot be read from the database: services with "
			"edgeway.io/allow-from are closed to them until the hub tells them "
			"error=\"%s\"",
			err.text);
}

bool
apply_is_empty(const struct apply *a)
{
	return !a->known && snapshot_count(a->snapshot) == 0 && a->n_unacked == 0;
}

int
apply_load(struct apply *a, struct store *store, struct err *err)
{
	int rc = read_services(a, store, err);

	if (rc < 0) { /* some of the addresses are taken already */
		ipam_free(&a->ipam);
		ipam_new(&a->ipam, a->config.subnet, a->config.mask, NULL);
		return rc;
	}
	free(a->site);
	free(a->zone);
	read_identity(a, store);
	free(a->callers);
	read_callers(a, store);
	return 0;
}

void
apply_use_loaded(struct apply *a)
{
	apply_give(a);
	a->config.resync(a->config.arg);
}

int
apply_new(
	struct apply **out, const struct apply_config *config, struct store *store, struct err *err)
{
	struct apply *a = xcalloc(1, sizeof(*a));
	int rc;

	a->config = *config;
	a->node = xstrdup(config->node);
	a->guard = config->guard != NULL ? dial_guard_ref(config->guard) : NULL;
	a->last = &a->first;
	a->wall_at_start_ms = wall_ms();
	a->mono_at_start_ms = mono_ms();
	a->gather = timer_new(config->loop, apply_on_gather, a);
	a->address_retry = timer_new(config->loop, apply_retry_addresses, a);
	read_identity(a, store);
	rc = ipam_new(&a->ipam, config->subnet, config->mask, err);
	if (rc == 0)
		rc = read_services(a, store, err);
	if (rc == 0)
		read_callers(a, store);
	if (rc < 0)
		apply_free(&a, true);
	else
		apply_give(a);
	*out = a;
	return rc;
}

void
apply_start(struct apply *a, struct writer *writer)
{
	a->writer = writer;
	timer_start(a->address_retry, ADDRESS_RETRY_MS, ADDRESS_RETRY_MS);
}

void
apply_free(struct apply **out, bool committed)
{
	struct apply *a = take_ptr(out);

	if (a == NULL)
		return;
	timer_free(&a->gather);
	timer_free(&a->address_retry);
	while (committed && a->runs != NULL) {
		struct run *run = a->runs;

		a->runs = run->next;
		apply_free_run(run);
	}
	apply_drop_all(a, a->first);
	apply_drop_all(a, held_take(a));
	ipam_free(&a->ipam);
	if (a->snapshot != NULL)
		unref_snapshot(&a->snapshot);
	if (a->used != NULL)
		unref_snapshot(&a->used);
	dial_guard_unref(&a->guard);
	free(a->ports);
	free(a->node);
	free(a->site);
	free(a->zone);
	free(a->callers);
	free(a);
}

/* Later changes of a service replace those that wait for the same transaction; that its address has
 * rested is none of it. Those of a connection that is gone need no acknowledgement: while the disk
 * hangs, the hub sends the same on one connection after the other. */
static void
apply_supersede(struct apply *a, const char *key, unsigned connection)
{
	for (struct item *it = a->first; it != NULL; it = it->next) {
		if (it->kind == ITEM_NOTE || it->kind == ITEM_REST || strcmp(it->key, key) != 0)
			continue;
		it->superseded = true;
		if (it->id == NULL || it->connection == connection)
			continue;
		free(take_ptr(&it->id));
		a->n_unacked--;
	}
}

int
apply_change(struct apply *a, const struct apply_message *m, struct err *err)
{
	struct view *view = NULL;
	struct item *it;
	int rc;

	if (a->n_unacked >= UNACKED_MAX)
		return err_set(err, EAGAIN, "%zu changes wait for their acknowledgement already",
			a->n_unacked);
	if (m->view != NULL) {
		if ((rc = view_parse(&view, m->view, m->len, err)) < 0)
			return rc;
		if (strcmp(view->ns, m->ns) != 0 || strcmp(view->name, m->name) != 0) {
			view_free(&view);
			return err_set(err, EINVAL,
				"the view is of another service than the resource says");
		}
	}
	it = xcalloc(1, sizeof(*it));
	it->kind = view != NULL ? ITEM_UPDATE : ITEM_DELETE;
	it->connection = m->connection;
	it->id = xstrdup(m->id);
	it->resource = xstrdup(m->resource);
	it->key = xasprintf("%s/%s", m->ns, m->name);
	it->ns = xstrdup(m->ns);
	it->view = view;
	if (view != NULL) {
		it->data = xstrndup(m->view, m->len);
		it->len = m->len;
		it->digest = view_digest(m->view, m->len);
	}
	apply_supersede(a, it->key, it->connection);
	a->n_unacked++;
	apply_add(a, it);
	*(view != NULL ? &a->counts.updates : &a->counts.deletes) += 1;
	return 0;
}

void
apply_synced(struct apply *a)
{
	/* else it answers what was told before the loss */
	a->synced = !a->lost || a->lost_told || snapshot_count(a->snapshot) == 0;
	apply_settle(a);
	a->config.synced(a->config.arg);
}

/* The last value of each key is all that waits, however slow the disk is. */
void
apply_note(struct apply *a, const char *key, const char *value)
{
	struct item *it = a->first;

	while (it != NULL && (it->kind != ITEM_NOTE || strcmp(it->key, key) != 0))
		it = it->next;
	if (it == NULL) {
		it = xcalloc(1, sizeof(*it));
		it->kind = ITEM_NOTE;
		it->key = xstrdup(key);
		apply_add(a, it);
	}
	free(it->data);
	it->data = xstrdup(value);
	it->len = strlen(value);
}

void
apply_identity(struct apply *a, const char *site, const char *zone)
{
	if (strcmp(site, a->site) == 0 && strcmp(zone, a->zone) == 0)
		return;
	log_limited(LOG_LEVEL_INFO, 12, "meta",
		"the hub says where this node is site=\"%s\" zone=\"%s\" before=\"%s\"", site, zone,
		a->site);
	free(a->site);
	free(a->zone);
	a->site = xstrdup(site);
	a->zone = xstrdup(zone);
	apply_note(a, "site", site);
	apply_note(a, "zone", zone);
	apply_scan(a, true);
}

int
apply_callers(struct apply *a, const char *json, size_t len, struct err *err)
{
	struct local_callers *callers;
	int rc = local_callers_parse(&callers, json, len, err);

	if (rc < 0)
		return rc;
	log_debug(
		"meta", "the hub tells the pods of this node n=%zu", local_callers_count(callers));
	free(a->callers);
	a->callers = xstrndup(json, len);
	apply_note(a, "callers", a->callers);
	use_callers(a, callers);
	if (a->known)
		apply_give(a);
	return 0;
}

const struct snapshot *
apply_snapshot(const struct apply *a)
{
	return a->used;
}

const char *
apply_site(const struct apply *a)
{
	return a->site;
}
