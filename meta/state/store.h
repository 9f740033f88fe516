/*
 * The node's database (SQLite; no other file includes sqlite3.h): services with their fake IPs,
 * addresses at rest, small values. Synchronous: called by meta_open before traffic, from then on by
 * meta/state/writer's thread alone.
 *
 * store_open checks the file. One that is damaged, no database at all, or of a newer version is
 * moved aside as PATH.damaged-<time> and a new one is started: the agent never refuses to start
 * because of it. The file is 0600, in WAL mode with synchronous=FULL: what was acknowledged, and a
 * fake IP that was answered, must outlive a power cut, and a transaction holds all changes of 20
 * ms, so that it is one fsync a batch.
 *
 *	store_open(&store, path, &report, err);
 *	store_load(store, on_row, arg, err);
 *	store_commit(store, &batch, err);	// all or nothing
 */
#ifndef EDGEWAY_META_STATE_STORE_H
#define EDGEWAY_META_STATE_STORE_H

#include "base/core/err.h"

struct store;

enum store_kind {
	STORE_PUT, /* key, digest, data (view), ip: the service; its address rests no more */
	STORE_DEL, /* key: the service */
	STORE_IP, /* key, ip: a new address of the service */
	STORE_REST, /* key, ip, freed_at_ms */
	STORE_FORGET, /* ip: rests no more and belongs to nobody */
	STORE_NOTE, /* key, data: a fact to remember, see store_note */
};

struct store_op { /* borrowed pointers: they live until the commit has returned */
	enum store_kind kind;
	const char *key;
	const char *data;
	size_t len;
	uint64_t digest;
	uint64_t freed_at_ms;
	uint32_t ip;
};

struct store_batch {
	struct store_op *ops;
	size_t n, size;
};

struct store_row { /* borrowed */
	const char *key;
	const char *view;
	size_t len;
	uint64_t digest;
	uint32_t ip; /* 0: none */
};

struct store_report {
	unsigned moved_aside; /* files that had to go */
	bool read_only;
};

typedef void store_row_fn(void *arg, const struct store_row *row);
typedef void store_rest_fn(void *arg, const char *key, uint32_t ip, uint64_t freed_at_ms);

int store_open(
	struct store **store, const char *path, struct store_report *report, struct err *err);
void store_close(struct store **store);
/* Out of the way with the file and its journals; what happened goes to the log. */
int store_move_aside(const char *path, const char *why, struct err *err);

/* -EUCLEAN: the file is damaged. */
int store_load(struct store *store, store_row_fn *fn, void *arg, struct err *err);
/* Addresses at rest, released first first. */
int store_load_resting(struct store *store, store_rest_fn *fn, void *arg, struct err *err);
/* At most `limit` services whose keys come after `after` ("": from the first on), in the order of
 * keys. */
int store_scan(struct store *store, const char *after, size_t limit, store_row_fn *fn, void *arg,
	struct err *err);
/* 0, or -ENOSPC, -EROFS, -EIO, -EUCLEAN, -EBUSY: nothing of the batch was written. */
int store_commit(struct store *store, const struct store_batch *batch, struct err *err);
/* A fact as heap string; NULL when there is none. */
char *store_note(struct store *store, const char *key);

/* What to do about a database that cannot be written. errno, positive. */
const char *store_remedy(int error);

/* Values of meta_keep_*. -ENOENT when absent. Putting what is there already needs no disk. */
int store_keep_get(struct store *store, const char *key, char **data, size_t *len);
int store_keep_put(struct store *store, const char *key, const void *data, size_t len);
int store_keep_del(struct store *store, const char *key);

void store_batch_add(struct store_batch *batch, const struct store_op *op);
void store_batch_fini(struct store_batch *batch);

#endif
