/*
 * The spine of a change: message ─► view ─► fake IP ─► commit ─► service ─► next snapshot ─► use() ─► ack. Groups what
 * arrives within 20 ms (or while a commit lasts) into one transaction and one snapshot. Owns the
 * allocator, the snapshot in use, and who this node is. Loop 0 only; meta/state/writer does the
 * waiting.
 *
 * While the database cannot be written the changes are used from memory and acknowledged all the
 * same, and the last one of each service is kept to be written as soon as that works again. This
 * loses nothing: digests are of what is in use, and after a restart of what the database holds, so
 * that the hub sends again whatever it lacks. Holding acks back instead would fill the hub's window
 * and end the connection every minute.
 *
 *	apply_new(&apply, &config, store, err);		// reads the database, calls use()
 *	apply_start(apply, writer);
 *	apply_change(apply, &message, err);
 */
#ifndef EDGEWAY_META_STATE_APPLY_H
#define EDGEWAY_META_STATE_APPLY_H

#include "meta/state/ipam.h"
#include "meta/state/store.h"
#include "meta/state/writer.h"
#include "model/dial_guard.h"
#include "model/digest.h"
#include "model/snapshot.h"

struct apply;

enum { APPLY_UNSERVED_MAX = 100 };

/* A message that is to be acknowledged; `connection` tells an old connection's messages from the
 * present one's. */
struct apply_message {
	unsigned connection;
	const char *id, *resource;
	const char *ns, *name;
	const char *view; /* NULL: deleted */
	size_t len;
};

struct apply_config {
	struct loop *loop;
	const char *node;
	uint32_t subnet, mask;
	bool forward; /* struct self has it */
	const struct dial_guard *guard; /* the same; referenced */
	void (*use)(void *arg, const struct snapshot *snapshot);
	void (*ack)(void *arg, unsigned connection, const char *id, const char *resource);
	void (*synced)(void *arg); /* the hub says that it has told everything */
	void (*resync)(void *arg); /* the database was lost: ask the hub for everything */
	void *arg;
};

struct apply_counts {
	uint64_t updates, deletes, batches, exhausted, dropped, moved;
	size_t waiting; /* changes that are not committed yet */
	size_t without_address;
	struct ipam_counts ipam;
};

/* store may be NULL. -EUCLEAN: the file is damaged, *apply is NULL. */
int apply_new(struct apply **apply, const struct apply_config *config, struct store *store,
	struct err *err);
void apply_start(struct apply *apply, struct writer *writer);
/* Hands what waits to the writer; to be called before writer_stop. */
void apply_flush(struct apply *apply);
/* committed: writer_stop's result; when false the batches are left to the thread that still reads
 * them. */
void apply_free(struct apply **apply, bool committed);

/* -EINVAL with the reason: refused. */
int apply_change(struct apply *apply, const struct apply_message *m, struct err *err);
/* The hub has told everything. */
void apply_synced(struct apply *apply);
/* Where this node is, from the hub's hello; rebuilds every service when it changed. */
void apply_identity(struct apply *apply, const char *site, const char *zone);
/* Another guard: builds services anew where it says something else of an endpoint. */
void apply_guard(struct apply *apply, const struct dial_guard *guard);
/* Who calls from this node, as the hub tells it (model/local_callers.h); in use at once. -EBADMSG
 * with the reason: refused. */
int apply_callers(struct apply *apply, const char *json, size_t len, struct err *err);
/* Remembers a fact (store_note). */
void apply_note(struct apply *apply, const char *key, const char *value);

/* The writer's `lost`: names and addresses are written anew, everything is asked from the hub. */
void apply_lost(void *apply);

const struct snapshot *apply_snapshot(const struct apply *apply);
void apply_digests(const struct apply *apply, struct digests *d);
void apply_entries(const struct apply *apply, const bool of[DIGEST_BUCKETS],
	struct digest_entry **entries, size_t *n);
/* {"services":["default/web",..],"more":0,"refused":[..]}: those without a fake IP, and those of
 * which an endpoint is refused (model/dial_guard.h), APPLY_UNSERVED_MAX of each by name. How
 * many. */
size_t apply_unserved(const struct apply *apply, struct buf *out);
struct apply_counts apply_count(const struct apply *apply);
const char *apply_site(const struct apply *apply);

#endif
