/*
 * The database's own thread: receives batches from loop 0, commits them one after the other, and
 * posts the result back. A failed commit (disk full, read-only, I/O error) stays at the head of the
 * queue and is retried, after 100 ms doubling to 2 s, on a full disk only once there is room again;
 * the file is opened anew each time. The owner is notified once per batch, so that it can go on in
 * memory. A file that somebody else removed or replaced is written again from the one that is still
 * open, within 4 s; one that somebody else wrote into is moved aside, and told as lost. A new file
 * begins with the notes and kept values of the old one. All calls on loop 0.
 *
 *	writer_start(&writer, &config, &store, err);	// takes the store, which may be NULL
 *	writer_commit(writer, &batch, on_done, run);	// batch must live until on_done(run, 0)
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
	/* there is a new file, without the services of the old one: they have to be committed again
	 */
	loop_fn *lost;
	loop_fn *rewritten; /* the file was gone and is there again, complete */
	/* the file, which could not be opened at the start, is open, and has been there before */
	loop_fn *opened;
	void *arg;
};

/* 0: committed, the last call. Negative, at most once before that: not committed yet. */
typedef void writer_done_fn(void *arg, int status);
typedef void writer_rows_fn(void *arg, int status, const struct store_row *rows, size_t n);
typedef int writer_read_fn(void *arg, struct store *store);

struct writer_counts {
	uint64_t commits, failures, moved_aside, rewritten;
	uint64_t rewritten_ms; /* mono_ms of the last time; 0: never */
	bool failing;
	uint64_t failing_since_ms; /* mono_ms; 0: not failing */
	int error; /* errno of the last failure, positive */
};

int writer_start(struct writer **writer, const struct writer_config *config, struct store **store,
	struct err *err);
void writer_commit(
	struct writer *writer, const struct store_batch *batch, writer_done_fn *done, void *arg);
/* See store_scan; runs in order with the commits. */
void writer_scan(
	struct writer *writer, const char *after, size_t limit, writer_rows_fn *fn, void *arg);

/* These block until the thread has answered, at most for the time of one commit. */
int writer_keep_get(struct writer *writer, const char *key, char **data, size_t *len);
int writer_keep_put(struct writer *writer, const char *key, const void *data, size_t len);
int writer_keep_del(struct writer *writer, const char *key);
/* Calls fn on the thread; returns its result, or why there is no store. If that is negative, but
 * not -EUCLEAN, `opened` comes once more. */
int writer_read(struct writer *writer, writer_read_fn *fn, void *arg);
/* The services in the file are not those in use: moves it aside, and tells it as lost. */
int writer_discard(struct writer *writer);

struct writer_counts writer_count(struct writer *writer);
/* Commits what is queued (one try each), closes the database. False when the disk did not respond
 * within 1.5 s: then the thread is left running and the batches must not be freed. No callback
 * comes afterwards. */
bool writer_stop(struct writer **writer);

#endif
