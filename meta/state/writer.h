/*
 * The database's own thread: takes batches from loop 0, commits them one after the other, and posts
 * the outcome back. A commit that fails (disk full, read-only, I/O error) stays at the head and is
 * tried again, 100 ms doubling to 2 s, on a full disk only once there is room again, the file
 * opened anew each time; the owner hears of it once, so that it can go on in memory. All calls on
 * loop 0.
 *
 *	writer_start(&writer, &config, &store, err);		// takes the store over; it may be NULL
 *	writer_commit(writer, &batch, on_done, run);	// the batch lives until on_done(run, 0)
 *	writer_stop(&writer);
 */
#ifndef EDGEWAY_META_STATE_WRITER_H
#define EDGEWAY_META_STATE_WRITER_H

#include "base/core/loop.h"
#include "meta/state/store.h"

struct writer;

struct writer_config {
	struct loop *loop;
	const char *path;
	loop_fn *lost; /* the file had to be replaced by an empty one while we run */
	void *arg;
};

/* 0: committed, the last call. Negative, at most once before: not committed yet. */
typedef void writer_done_fn(void *arg, int status);
typedef void writer_rows_fn(void *arg, int status, const struct store_row *rows, size_t n);

struct writer_counts {
	uint64_t commits, failures, moved_aside;
	uint64_t worst_commit_us;
	bool failing;
	uint64_t failing_since_ms; /* mono_ms; 0: it does not fail */
	int error; /* errno of the last failure, positive */
};

int writer_start(struct writer **writer, const struct writer_config *config, struct store **store,
	struct err *err);
void writer_commit(
	struct writer *writer, const struct store_batch *batch, writer_done_fn *done, void *arg);
/* See store_scan; runs in order with the commits. */
void writer_scan(
	struct writer *writer, const char *after, size_t limit, writer_rows_fn *fn, void *arg);

/* These wait for the thread, at most while one commit lasts. */
int writer_keep_get(struct writer *writer, const char *key, char **data, size_t *len);
int writer_keep_put(struct writer *writer, const char *key, const void *data, size_t len);
int writer_keep_del(struct writer *writer, const char *key);

struct writer_counts writer_count(struct writer *writer);
/* Commits what waits (one try each), closes the database. False when the disk did not answer within
 * 1.5 s: then the thread is left behind and the batches must not be freed. No callback comes
 * afterwards. */
bool writer_stop(struct writer **writer);

#endif
