#include "meta/state/apply_private.h"

#include <string.h>

#include "base/core/log.h"

enum {
	GATHER_MS = 20,
	PARTIAL_MS = 10 * 1000, /* if the hub never says "synced", serve what there is after this */
};

static void gather_later(struct apply *a);
static void on_committed(void *arg, int status);

void
apply_drop(struct apply *a, struct item *it)
{
	a->n_waiting--;
	view_free(&it->view);
	free(it->id);
	free(it->resource);
	free(it->key);
	free(it->ns);
	free(it->data);
	free(it);
}

void
apply_drop_all(struct apply *a, struct item *items)
{
	while (items != NULL) {
		struct item *it = items;

		items = it->next;
		apply_drop(a, it);
	}
}

void
apply_free_run(struct run *run)
{
	apply_drop_all(run->apply, run->items);
	store_batch_fini(&run->batch);
	free(run);
}

void
apply_add(struct apply *a, struct item *it)
{
	*a->last = it;
	a->last = &it->next;
	a->n_waiting++;
	gather_later(a);
}

/* Allocates the address for an item that adds or changes a service. */
static void
take_address(struct apply *a, const struct run *run, struct item *it)
{
	bool again = it->kind == ITEM_ADDRESS;

	if (again && !apply_wants_address(a, run, it)) {
		it->superseded = true;
		return;
	}
	if (ipam_take(a->ipam, it->key, apply_clock_ms(a), &it->ip) == 0)
		return;
	it->ip = 0;
	it->superseded |= again; /* all is as it was */
	a->counts.exhausted++;
	if (!again)
		log_limited(LOG_LEVEL_ERROR, 10, "meta",
			"no fake IP is left: the service cannot be reached by name; choose a "
			"larger mesh.subnet "
			"service=%s addresses=%zu",
			it->key, ipam_count(a->ipam).size);
}

static void
give_address_back(struct apply *a, struct item *it)
{
	it->freed_ms = apply_clock_ms(a);
	it->rest_ip = ipam_release(a->ipam, it->key, it->freed_ms);
	it->forget_ip = ipam_trim(a->ipam, it->freed_ms);
}

static void
apply_batch_decide(struct apply *a, struct run *run)
{
	for (struct item *it = run->items; it != NULL; it = it->next) {
		if (it->superseded)
			continue;
		if (it->kind == ITEM_UPDATE || it->kind == ITEM_ADDRESS)
			take_address(a, run, it);
		else if (it->kind == ITEM_DELETE)
			give_address_back(a, it);
		else if (it->kind == ITEM_REST)
			it->superseded = ipam_find(a->ipam, it->key) != 0;
	}
}

static void
add_ops(struct store_batch *batch, const struct item *it)
{
	static const enum store_kind kinds[] = {[ITEM_UPDATE] = STORE_PUT,
		[ITEM_DELETE] = STORE_DEL,
		[ITEM_ADDRESS] = STORE_IP,
		[ITEM_HOLD] = STORE_IP,
		[ITEM_REST] = STORE_REST,
		[ITEM_NOTE] = STORE_NOTE};
	const struct store_op op = {.kind = kinds[it->kind],
		.key = it->key,
		.digest = it->digest,
		.data = it->data,
		.len = it->len,
		.freed_at_ms = it->freed_ms,
		.ip = it->ip};
	const struct store_op rest = {
		.kind = STORE_REST, .key = it->key, .freed_at_ms = it->freed_ms, .ip = it->rest_ip};
	const struct store_op forget = {.kind = STORE_FORGET, .ip = it->forget_ip};

	if (it->superseded)
		return;
	store_batch_add(batch, &op);
	if (rest.ip != 0)
		store_batch_add(batch, &rest);
	if (forget.ip != 0)
		store_batch_add(batch, &forget);
}

void
apply_give(struct apply *a)
{
	if (a->used != NULL)
		unref_snapshot(&a->used);
	a->used = snapshot_ref(a->snapshot);
	a->config.use(a->config.arg, a->snapshot);
}

void
apply_adopt(struct apply *a, const struct snapshot *next)
{
	unref_snapshot(&a->snapshot);
	a->snapshot = next;
	if (!a->known && a->first_change_ms == 0)
		a->first_change_ms = mono_ms();
	if (!a->known && mono_ms() - a->first_change_ms < PARTIAL_MS)
		return;
	a->known = true;
	apply_give(a);
}

/* Builds the change that an item makes in the snapshot; false: none. */
static bool
change_of(const struct apply *a, struct item *it, struct change *c)
{
	struct self self = self_of(a);

	if (it->superseded || it->kind == ITEM_NOTE || it->kind == ITEM_HOLD ||
		it->kind == ITEM_REST)
		return false;
	if (it->kind != ITEM_DELETE) {
		c->service = service_build(it->view, &self, it->ip, it->digest);
		apply_tell_refused(c->service);
		c->ns = c->service->namespace;
		c->name = c->service->name;
		view_free(&it->view);
		return true;
	}
	c->service = NULL;
	c->ns = it->ns;
	c->name = it->key + strlen(it->ns) + 1;
	return true;
}

static void
apply_batch_publish(struct apply *a, struct run *run)
{
	struct change *changes;
	size_t n = 0, most = 1;

	for (const struct item *it = run->items; it != NULL; it = it->next)
		most++;
	changes = xcalloc(most, sizeof(*changes));
	for (struct item *it = run->items; it != NULL; it = it->next)
		n += change_of(a, it, &changes[n]);
	if (n > 0)
		apply_adopt(a, snapshot_next(a->snapshot, changes, n));
	free(changes);
	run->published = true;
	a->n_unpublished--;
}

/* Acknowledges each message once: when it is committed, or in use while nothing can be
 * committed. */
static void
apply_batch_acknowledge(struct apply *a, const struct run *run)
{
	for (struct item *it = run->items; it != NULL; it = it->next) {
		auto_free char *id = take_ptr(&it->id);

		if (id == NULL)
			continue;
		a->n_unacked--;
		a->config.ack(a->config.arg, it->connection, id, it->resource);
	}
}

void
apply_settle(struct apply *a)
{
	if (!a->synced || a->first != NULL || a->n_unpublished > 0)
		return;
	a->synced = false;
	if (!a->noted || a->lost)
		apply_note(a, STORE_SYNCED, "1");
	a->noted = true;
	a->lost = false;
	if (!a->known) {
		a->known = true;
		apply_adopt(a, snapshot_next(a->snapshot, NULL, 0));
	}
}

static void
hand_over(struct apply *a, struct run *run)
{
	for (const struct item *it = run->items; it != NULL; it = it->next)
		add_ops(&run->batch, it);
	run->next = a->runs;
	a->runs = run;
	writer_commit(a->writer, &run->batch, on_committed, run);
}

/* Writes what is in use already, but not in the database. */
static void
write_held(struct apply *a)
{
	struct run *run;

	if (a->held == NULL)
		return;
	run = xcalloc(1, sizeof(*run));
	run->apply = a;
	run->items = held_take(a);
	run->published = true;
	hand_over(a, run);
}

static void
apply_batch_finish(struct apply *a, struct run *run)
{
	struct run **p = &a->runs;

	while (*p != run)
		p = &(*p)->next;
	*p = run->next;
	apply_free_run(run);
	if (a->failing) {
		a->failing = false;
		write_held(a);
	}
	if (a->scan_later && !apply_behind(a)) {
		a->scan_later = false;
		apply_scan(a, true);
	}
}

static void
on_committed(void *arg, int status)
{
	struct run *run = arg;
	struct apply *a = run->apply;

	a->known |= status < 0; /* a broken disk: for some time we will know no more than this */
	a->failing |= status < 0;
	if (!run->published)
		apply_batch_publish(a, run);
	apply_batch_acknowledge(a, run);
	if (status == 0)
		apply_batch_finish(a, run);
	apply_settle(a);
	gather_later(a);
}

/* The database cannot be written: use, acknowledge, and keep for later. */
static void
go_on_in_memory(struct apply *a, struct run *run)
{
	struct item *items;

	apply_batch_publish(a, run);
	apply_batch_acknowledge(a, run);
	items = take_ptr(&run->items);
	apply_free_run(run);
	while (items != NULL) {
		struct item *it = items;

		items = it->next;
		held_add(a, it);
	}
	apply_settle(a);
}

static void
apply_batch_flush(struct apply *a)
{
	struct run *run;

	if (a->first == NULL)
		return;
	timer_cancel(a->gather);
	run = xcalloc(1, sizeof(*run));
	run->apply = a;
	run->items = take_ptr(&a->first);
	a->last = &a->first;
	a->n_unpublished++;
	apply_batch_decide(a, run);
	if (a->failing)
		go_on_in_memory(a, run);
	else
		hand_over(a, run);
}

void
apply_flush(struct apply *a)
{
	apply_batch_flush(a);
	write_held(a);
}

bool
apply_behind(const struct apply *a)
{
	bool behind = a->failing || a->held != NULL;

	for (const struct run *run = a->runs; run != NULL && !behind; run = run->next)
		behind = run->published;
	return behind;
}

void
apply_on_gather(void *arg)
{
	apply_batch_flush(arg);
}

/* One commit at a time, so that a slow disk leads to larger batches; batches that only wait for a
 * broken disk do not count. */
static void
gather_later(struct apply *a)
{
	if (a->first != NULL && a->n_unpublished == 0 && a->writer != NULL &&
		!timer_active(a->gather))
		timer_start(a->gather, GATHER_MS, 0);
}
