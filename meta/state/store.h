/*
 * The node's database (SQLite; no other file includes sqlite3.h): services with their fake IPs,
 * resting addresses, small values. Synchronous: called by meta_open before traffic, afterwards only
 * by meta/state/writer's thread.
 *
 * store_open checks the file. A damaged file, one that is not a database, or one of a newer version
 * is moved aside as PATH.damaged-<time> and a new one is created: the agent never refuses to start
 * because of it. The file is 0600, in WAL mode with synchronous=FULL: an acknowledged change and an
 * answered fake IP must survive a power cut. A transaction holds all changes of 20 ms, so there is
 * one fsync per batch.
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
	STORE_PUT, /* key, digest, data (view), ip: the service; its address no longer rests */
	STORE_DEL, /* key: the service */
	STORE_IP, /* key, ip: the address of the service, whose view may be missing */
	STORE_REST, /* key, ip, freed_at_ms */
	STORE_FORGET, /* ip: no longer rests and has no owner */
	STORE_NOTE, /* key, data: a note, see store_note */
	STORE_KEEP, /* key, data: a kept value, see store_keep_get */
};

struct store_op { /* borrowed pointers, valid until the commit has returned */
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
	unsigned moved_aside; /* files moved aside */
	bool created; /* there was no file, or an empty one */
	bool read_only;
};

typedef void store_row_fn(void *arg, const struct store_row *row);
typedef void store_value_fn(void *arg, const struct store_op *op);
typedef void store_rest_fn(void *arg, const char *key, uint32_t ip, uint64_t freed_at_ms);

/* Makes the folder, too. */
int store_open(
	struct store **store, const char *path, struct store_report *report, struct err *err);
void store_close(struct store **store);
/* Whether the path no longer leads to the open file, which is still complete. */
bool store_moved(struct store *store);
/* Whether another program has written into the open file, as a backup that is copied over it: what
 * is there is a mixture, of no use. */
bool store_overwritten(struct store *store);
/* Writes all that the open file holds to the path again; another file there is moved aside. What is
 * open stays the old file: the caller closes it and opens the new one. */
int store_rewrite(struct store *store, const char *path, struct err *err);
/* Moves the file and its journals aside, and logs why. */
int store_move_aside(const char *path, const char *why, struct err *err);

/* -EUCLEAN: the file is damaged. */
int store_load(struct store *store, store_row_fn *fn, void *arg, struct err *err);
/* Resting addresses, in the order of their release. */
int store_load_resting(struct store *store, store_rest_fn *fn, void *arg, struct err *err);
/* At most `limit` services whose keys come after `after` ("": from the first), in the order of
 * keys. */
int store_scan(struct store *store, const char *after, size_t limit, store_row_fn *fn, void *arg,
	struct err *err);
/* 0, or -ENOSPC, -EROFS, -EIO, -EUCLEAN, -EBUSY: nothing of the batch was written. */
int store_commit(struct store *store, const struct store_batch *batch, struct err *err);
/* The note that the hub has once sent everything: the services in the file are all that there were.
 */
#define STORE_SYNCED "synced"
/* A note as a heap string; NULL when there is none. */
char *store_note(struct store *store, const char *key);
/* All notes and kept values, as operations that would write them. */
void store_each_value(struct store *store, store_value_fn *fn, void *arg);

/* What to do about a database that cannot be written. errno, positive. */
const char *store_remedy(int error);

/* Values of meta_keep_*. -ENOENT when absent. Putting a value that is already there needs no
 * disk. */
int store_keep_get(struct store *store, const char *key, char **data, size_t *len);
int store_keep_put(struct store *store, const char *key, const void *data, size_t len);
int store_keep_del(struct store *store, const char *key);

void store_batch_add(struct store_batch *batch, const struct store_op *op);
void store_batch_fini(struct store_batch *batch);

#endif
