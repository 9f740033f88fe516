/*
 * Shared by the files of meta/state/apply: apply.c accepts changes, apply_batch.c processes them
 * (addresses, database, snapshot, acknowledgements), apply_held.c keeps what cannot be written at
 * the moment, apply_guard.c follows this machine's addresses, apply_scan.c reads services from the
 * database again, apply_tell.c reports what this node holds. Not included elsewhere.
 */
#ifndef EDGEWAY_META_STATE_APPLY_PRIVATE_H
#define EDGEWAY_META_STATE_APPLY_PRIVATE_H

#include "meta/state/apply.h"
#include "model/view.h"

enum item_kind {
	ITEM_UPDATE,
	ITEM_DELETE,
	ITEM_ADDRESS, /* a service without an address may get one now */
	ITEM_HOLD, /* the name and address of a service whose row was lost */
	ITEM_REST, /* the same of a service that is gone, whose address rests */
	ITEM_NOTE,
};

struct item {
	struct item *next;
	struct item *prev, *chain; /* used by meta/state/apply_held.c */
	enum item_kind kind;
	unsigned connection;
	bool superseded; /* replaced by a later one in the same batch */
	char *id, *resource; /* NULL: nothing to acknowledge */
	char *key; /* "ns/name" */
	char *ns; /* of a deletion */
	char *data; /* the view's bytes, or the note */
	size_t len;
	uint64_t digest;
	uint32_t ip;
	/* of a deletion: address that begins to rest; address to be forgotten */
	uint32_t rest_ip, forget_ip;
	uint64_t freed_ms; /* of ITEM_REST, too */
	struct view *view;
};

struct run { /* one batch being processed */
	struct run *next;
	struct apply *apply;
	struct item *items;
	struct store_batch batch;
	bool published;
};

struct apply {
	struct apply_config config;
	char *node, *site, *zone;
	struct dial_guard *guard; /* NULL: only the static rules */
	char *callers; /* as reported by the hub, NULL: never */
	struct writer *writer;
	struct ipam *ipam;
	const struct snapshot *snapshot; /* including all that is committed */
	/* passed to use(); the same, except before the first sync ever */
	const struct snapshot *used;
	/* At the very first sync services are held back until all have arrived: answering that the
	 * others do not exist would be wrong, and clients would cache it. */
	bool known, noted;
	uint64_t first_change_ms;
	struct timer *gather, *address_retry;
	struct item *first, **last; /* gathered for the next run */
	struct run *runs; /* passed to the writer */
	/* The database cannot be written: changes are used and acknowledged, and kept in `held` to
	 * be written later. */
	bool failing;
	struct held *held; /* NULL: nothing */
	bool scan_later; /* read the services again once the database is up to date */
	size_t n_waiting, n_unpublished, n_unacked;
	uint64_t wall_at_start_ms, mono_at_start_ms;
	bool synced; /* reported by the hub; passed on when everything before it is in use */
	/* the database lost the views: to the hub we report none of the services as held, until it
	 * has been told so (`lost_told`) and has sent all again */
	bool lost, lost_told;
	bool scanning, scan_again, scan_all;
	char *ports; /* as apply_note_ports was told; NULL: none */
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
		.apiserver = a->config.apiserver,
		.direct = a->config.direct,
		.encrypt = a->config.encrypt,
		.guard = a->guard,
	};
}

/* Wall time at the start plus the monotonic time since: does not jump while we run. */
uint64_t apply_clock_ms(const struct apply *a);

/* --- apply_guard.c -------------------------------------------------------------------------- */
/* Logs which endpoints of the service are refused. */
void apply_tell_refused(const struct service *s);

/* --- apply_batch.c -------------------------------------------------------------------------- */
/* Adds the item to the next batch. */
void apply_add(struct apply *a, struct item *it);
/* Frees an item that is written, or never will be. */
void apply_drop(struct apply *a, struct item *it);
/* Does apply_drop for all items linked by next. */
void apply_drop_all(struct apply *a, struct item *items);
void apply_free_run(struct run *run);
/* Timer: processes the collected items. */
void apply_on_gather(void *apply);
/* Handles "synced", which only holds once everything that came before it is in use. */
void apply_settle(struct apply *a);
/* Passes the snapshot with all that is committed to the owner. */
void apply_give(struct apply *a);
/* Whether something is in use that is not in the database yet. Rows may then be older than what is
 * in use. */
bool apply_behind(const struct apply *a);

/* Keeps the last change of each key, in order (apply_held.c). Takes ownership of the item. */
void held_add(struct apply *a, struct item *it);
/* Removes and returns all held items, linked by next; NULL: none. */
struct item *held_take(struct apply *a);
/* Puts a snapshot into use; takes over the reference. */
void apply_adopt(struct apply *a, const struct snapshot *next);

/* Rebuilds services from their rows: all, or only those without an address, which may get one
 * now. */
void apply_scan(struct apply *a, bool all);
/* Whether the service of this ITEM_ADDRESS is in use as its row says, and without an address. */
bool apply_wants_address(const struct apply *a, const struct run *run, const struct item *it);
/* Timer: addresses may have become free. */
void apply_retry_addresses(void *apply);

#endif
