/*
 * What the files of meta/state/apply share: apply.c takes what comes, apply_batch.c is the spine
 * (addresses, database, snapshot, acknowledgements), apply_held.c keeps what cannot be written for
 * now, apply_guard.c follows this machine's addresses, apply_scan.c reads services from the
 * database again, apply_tell.c says what this node holds. No other file includes it.
 */
#ifndef EDGEWAY_META_STATE_APPLY_PRIVATE_H
#define EDGEWAY_META_STATE_APPLY_PRIVATE_H

#include "meta/state/apply.h"
#include "model/view.h"

enum item_kind {
	ITEM_UPDATE,
	ITEM_DELETE,
	ITEM_ADDRESS, /* a service that had no address may have one now */
	ITEM_HOLD, /* the name and address of a service whose row was lost */
	ITEM_NOTE,
};

struct item {
	struct item *next;
	struct item *prev, *chain; /* meta/state/apply_held.c's */
	enum item_kind kind;
	unsigned connection;
	bool superseded; /* a later one in the same batch speaks for it */
	char *id, *resource; /* NULL: nobody to acknowledge to */
	char *key; /* "ns/name" */
	char *ns; /* of a deletion */
	char *data; /* the view's bytes, or the note */
	size_t len;
	uint64_t digest;
	uint32_t ip;
	uint32_t rest_ip, forget_ip; /* of a deletion: goes to rest; rests no more */
	uint64_t freed_ms;
	struct view *view;
};

struct run { /* one batch on its way */
	struct run *next;
	struct apply *apply;
	struct item *items;
	struct store_batch batch;
	bool published;
};

struct apply {
	struct apply_config config;
	char *node, *site, *zone;
	struct dial_guard *guard; /* NULL: static rules alone */
	char *callers; /* as the hub told them, NULL: never */
	struct writer *writer;
	struct ipam *ipam;
	const struct snapshot *snapshot; /* with all that is committed */
	const struct snapshot *used; /* what use() got: the same, but for the first sync ever */
	/* The first services that arrive are held back until all have: to say that the others do
	 * not exist would be wrong, and be remembered. */
	bool known, noted;
	uint64_t first_change_ms;
	struct timer *gather, *address_retry;
	struct item *first, **last; /* gathered for the next run */
	struct run *runs; /* handed to the writer */
	/* The database cannot be written: what changes is in use and acknowledged, and waits here
	 * to be written. */
	bool failing;
	struct held *held; /* NULL: nothing */
	bool scan_later; /* services are to be read again once the database is up to date */
	size_t n_waiting, n_unpublished, n_unacked;
	uint64_t wall_at_start_ms, mono_at_start_ms;
	bool synced; /* the hub said so; told when everything before it is in use */
	bool lost; /* the database lost the views: nothing we hold counts as held */
	bool scanning, scan_again, scan_all;
	struct apply_counts counts;
};

static inline void
unref_snapshot(const struct snapshot **s)
{
	snapshot_unref((struct snapshot **)(uintptr_t)s);
}

static inline struct self
self_of(const struct apply *a)
{
	return (struct self){
		.node = a->node,
		.site = a->site,
		.zone = a->zone,
		.forward = a->config.forward,
		.guard = a->guard,
	};
}

/* Wall time that does not jump while we run. */
uint64_t apply_clock_ms(const struct apply *a);

/* --- apply_guard.c -------------------------------------------------------------------------- */
/* Says in the log which endpoints of it are refused. */
void apply_tell_refused(const struct service *s);

/* --- apply_batch.c -------------------------------------------------------------------------- */
/* Takes the item into the next batch. */
void apply_add(struct apply *a, struct item *it);
/* It is written, or never will be. */
void apply_drop(struct apply *a, struct item *it);
/* As apply_drop, of those linked by next. */
void apply_drop_all(struct apply *a, struct item *items);
void apply_free_run(struct run *run);
/* Timer: what was gathered goes its way. */
void apply_on_gather(void *apply);
/* "Synced" is true only once all that came before it is in use. */
void apply_settle(struct apply *a);
/* Tells the owner the snapshot with all that is committed. */
void apply_give(struct apply *a);
/* Is something in use that is not in the database yet? Rows may be older than what is in use
 * then. */
bool apply_behind(const struct apply *a);

/* The last change of each key, in the order of these (apply_held.c). Takes the item over. */
void held_add(struct apply *a, struct item *it);
/* All of them, linked by next; NULL: none. */
struct item *held_take(struct apply *a);
/* Makes a snapshot the one in use; takes the reference over. */
void apply_adopt(struct apply *a, const struct snapshot *next);

/* Builds services from their rows again: all, or only those without an address, which may get one
 * now. */
void apply_scan(struct apply *a, bool all);
/* Is this service in use, and without an address? */
bool apply_lacks_address(const struct apply *a, const char *key);
size_t apply_without_address(const struct apply *a);
/* Timer: addresses may have become free. */
void apply_retry_addresses(void *apply);

#endif
