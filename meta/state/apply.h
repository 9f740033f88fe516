/*
 * The path of a change: message ─► view ─► fake IP ─► commit ─► service ─► next snapshot ─► use()
 * ─► ack. Combines the changes that arrive within 20 ms (or during a commit) into one transaction
 * and one snapshot. Owns the allocator, the snapshot in use, and this node's identity (site, zone).
 * Loop 0 only; meta/state/writer does the blocking work.
 *
 * While the database cannot be written, changes are used from memory and acknowledged all the same,
 * and the last one of each service is kept to be written once that works again. This loses nothing:
 * the digests describe what is in use, and after a restart what the database holds, so the hub
 * sends again whatever is missing. Holding back the acks would fill the hub's window and end the
 * connection every minute.
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

/* A message to be acknowledged; `connection` distinguishes messages of earlier connections from
 * those of the current one. */
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
	bool forward, apiserver, direct; /* see struct self */
	uint8_t encrypt;
	const struct dial_guard *guard; /* see struct self; referenced */
	void (*use)(void *arg, const struct snapshot *snapshot);
	void (*ack)(void *arg, unsigned connection, const char *id, const char *resource);
	void (*synced)(void *arg); /* everything that the hub had to send is in use */
	void (*resync)(void *arg); /* the database was lost: ask the hub for everything */
	void *arg;
};

struct apply_counts {
	uint64_t updates, deletes, exhausted, dropped, moved;
	size_t waiting; /* changes that are not committed yet */
	size_t without_address;
	struct ipam_counts ipam;
};

/* store may be NULL. -EUCLEAN: the file is damaged, *apply is NULL. */
int apply_new(struct apply **apply, const struct apply_config *config, struct store *store,
	struct err *err);
void apply_start(struct apply *apply, struct writer *writer);
/* Whether it has no service yet, and no change of one waits. */
bool apply_is_empty(const struct apply *apply);
/* Reads the database that could not be opened before, while apply_is_empty; on the writer's thread
 * while loop 0 waits. apply_use_loaded follows on loop 0. -EUCLEAN: the file is damaged. */
int apply_load(struct apply *apply, struct store *store, struct err *err);
void apply_use_loaded(struct apply *apply);
/* Passes the collected changes to the writer; call it before writer_stop. */
void apply_flush(struct apply *apply);
/* committed: writer_stop's result; if false the batches are not freed, because the thread still
 * reads them. */
void apply_free(struct apply **apply, bool committed);

/* -EINVAL with the reason: refused. */
int apply_change(struct apply *apply, const struct apply_message *m, struct err *err);
/* The hub has sent everything. */
void apply_synced(struct apply *apply);
/* Site and zone of this node, from the hub's hello; rebuilds every service if they changed. */
void apply_identity(struct apply *apply, const char *site, const char *zone);
/* Sets another guard: rebuilds the services whose endpoints it judges differently. */
void apply_guard(struct apply *apply, const struct dial_guard *guard);
/* The local callers of this node, as reported by the hub (model/local_callers.h); used at once.
 * -EBADMSG with the reason: refused. */
int apply_callers(struct apply *apply, const char *json, size_t len, struct err *err);
/* Stores a note (store_note). */
void apply_note(struct apply *apply, const char *key, const char *value);

/* The writer's `lost`: writes names and addresses again, those that rest included, and asks the hub
 * for everything. */
void apply_lost(void *apply);

const struct snapshot *apply_snapshot(const struct apply *apply);
void apply_digests(const struct apply *apply, struct digests *d);
void apply_entries(struct apply *apply, const bool of[DIGEST_BUCKETS],
	struct digest_entry **entries, size_t *n);
/* {"services":["default/web",..],"more":0,"refused":[..]}: the services without a fake IP, and
 * those with a refused endpoint (model/dial_guard.h), at most APPLY_UNSERVED_MAX of each by name.
 * Returns how many there are. */
/* ports: those whose ports for callers from outside cannot be served, as JSON texts with commas. */
void apply_note_ports(struct apply *apply, const char *ports);
size_t apply_unserved(const struct apply *apply, struct buf *out);
struct apply_counts apply_count(const struct apply *apply);
const char *apply_site(const struct apply *apply);

#endif
