/*
 * The table holds a record from record_writer_put until its file is there. The thread takes what is
 * queued, up to RECORD_BATCH, writes without the lock, and syncs the journal and the folder once
 * for all of it. What is put for a name meanwhile is queued after that, the last of it alone.
 */
#include "hub/identity/record_writer.h"

#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/core/buf.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/core/thread.h"
#include "model/table.h"

enum { RECORD_MODE = 0644, JOURNAL_MODE = 0600, RECORD_BATCH = 64, RECORD_SLOW_MS = 1000 };

struct waiting_record {
	struct table_node node;
	STAILQ_ENTRY(waiting_record) link;
	char *path, *text, *line;
	char *next; /* put while this is written; NULL: nothing was */
	bool taken; /* by the thread, which reads all but `next` */
	struct record_answer *answer;
	int rc;
	char name[];
};

STAILQ_HEAD(waiting_records, waiting_record);

struct record_writer {
	pthread_mutex_t lock; /* for all of it */
	pthread_cond_t queued, written;
	pthread_t thread;
	bool ending;
	struct waiting_records queue;
	struct table table;
	uint64_t given_up;
	uint64_t taken_ms; /* since when a batch is being written; 0: none is */
	char problem[256];
	char *journal;
};

static struct waiting_record *
record_writer_find(const struct record_writer *w, const char *name)
{
	struct table_node *n = table_first(&w->table, hash64(name, strlen(name), 0));

	for (; n != NULL; n = table_next(n)) {
		struct waiting_record *r = container_of(n, struct waiting_record, node);

		if (strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}

/* --- on the thread -------------------------------------------------------------------------- */

static int
record_writer_journal(const struct record_writer *w, const struct waiting_records *batch)
{
	const struct waiting_record *r;
	auto_buf struct buf lines;

	buf_init(&lines, BUF_UNLIMITED);
	STAILQ_FOREACH(r, batch, link) {
		if (r->line != NULL)
			buf_adds(&lines, r->line);
	}
	if (buf_len(&lines) == 0)
		return 0;
	return file_append(w->journal, buf_at(&lines), buf_len(&lines), JOURNAL_MODE);
}

/* Adds up how many files failed; returns the last error. */
static int
record_writer_write(
	const struct record_writer *w, struct waiting_records *batch, uint64_t *n_failed)
{
	int journal = record_writer_journal(w, batch), failed = 0;
	const struct waiting_record *last = NULL;
	struct waiting_record *r;

	STAILQ_FOREACH(r, batch, link) {
		r->rc = r->line != NULL ? journal : 0;
		if (r->rc == 0)
			r->rc = file_replace(r->path, r->text, strlen(r->text), RECORD_MODE);
		if (r->rc == 0) {
			last = r;
			continue;
		}
		++*n_failed;
		failed = r->rc;
		if (r->answer != NULL)
			continue;
		log_limited(LOG_LEVEL_WARN, 4, "hub",
			"a node's record is not written; if it is the first one, a token could "
			"give the name away while the node is not connected node=%s "
			"error=\"cannot write %s: %s\"",
			r->name, r->path, strerror(-r->rc));
	}
	if (last != NULL)
		file_sync_folder(last->path);
	return failed;
}

static void
record_writer_done(struct record_writer *w, struct waiting_records *batch, int rc)
{
	struct waiting_record *r;

	w->problem[0] = '\0';
	if (rc < 0)
		snprintf(w->problem, sizeof w->problem,
			"nodes' certificates cannot be noted under dataDir: %s", strerror(-rc));
	while ((r = STAILQ_FIRST(batch)) != NULL) {
		STAILQ_REMOVE_HEAD(batch, link);
		if (r->answer != NULL) {
			r->answer->rc = r->rc;
			loop_post(r->answer->loop, r->answer->fn, r->answer);
			r->answer = NULL;
		}
		free(r->text);
		free(take_ptr(&r->line));
		if ((r->text = take_ptr(&r->next)) != NULL) {
			r->taken = false;
			STAILQ_INSERT_TAIL(&w->queue, r, link);
			continue;
		}
		table_remove(&w->table, &r->node);
		free(r->path);
		free(r);
	}
	pthread_cond_broadcast(&w->written);
}

static void
record_writer_take(struct record_writer *w, struct waiting_records *batch)
{
	struct waiting_record *r;

	for (int i = 0; i < RECORD_BATCH && (r = STAILQ_FIRST(&w->queue)) != NULL; i++) {
		STAILQ_REMOVE_HEAD(&w->queue, link);
		STAILQ_INSERT_TAIL(batch, r, link);
		r->taken = true;
	}
}

static void *
record_writer_thread(void *arg)
{
	struct record_writer *w = arg;
	struct waiting_records batch = STAILQ_HEAD_INITIALIZER(batch);
	uint64_t failed;
	int rc;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (STAILQ_EMPTY(&w->queue) && !w->ending)
			pthread_cond_wait(&w->queued, &w->lock);
		if (STAILQ_EMPTY(&w->queue))
			break;
		record_writer_take(w, &batch);
		w->taken_ms = mono_ms();
		pthread_mutex_unlock(&w->lock);
		failed = 0;
		rc = record_writer_write(w, &batch, &failed);
		pthread_mutex_lock(&w->lock);
		w->given_up += failed;
		w->taken_ms = 0;
		record_writer_done(w, &batch, rc);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* --- on the hub's loop ---------------------------------------------------------------------- */

static void
record_writer_destroy(struct record_writer *w)
{
	table_fini(&w->table);
	pthread_cond_destroy(&w->queued);
	pthread_cond_destroy(&w->written);
	pthread_mutex_destroy(&w->lock);
	free(w->journal);
	free(w);
}

int
record_writer_new(struct record_writer **out, const char *journal, struct err *err)
{
	struct record_writer *w = xcalloc(1, sizeof *w);
	int rc;

	w->journal = xstrdup(journal);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->queued, NULL);
	pthread_cond_init(&w->written, NULL);
	STAILQ_INIT(&w->queue);
	rc = thread_start(&w->thread, "records", 0, record_writer_thread, w, err);
	if (rc < 0) {
		record_writer_destroy(w);
		return rc;
	}
	*out = w;
	return 0;
}

void
record_writer_free(struct record_writer **out)
{
	struct record_writer *w = take_ptr(out);

	if (w == NULL)
		return;
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_signal(&w->queued);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	record_writer_destroy(w);
}

/* False: nothing waits under this name. */
static bool
record_writer_change(struct record_writer *w, const char *name, char *text)
{
	struct waiting_record *r;
	char **to;

	pthread_mutex_lock(&w->lock);
	if ((r = record_writer_find(w, name)) != NULL) {
		to = r->taken ? &r->next : &r->text;
		free(*to);
		*to = text;
	}
	pthread_mutex_unlock(&w->lock);
	return r != NULL;
}

void
record_writer_put(struct record_writer *w, const struct record_put *put)
{
	size_t size = strlen(put->name) + 1;
	struct waiting_record *r;

	if (put->line == NULL && put->answer == NULL &&
		record_writer_change(w, put->name, put->text))
		return;
	r = xcalloc(1, sizeof *r + size);
	memcpy(r->name, put->name, size);
	r->path = xstrdup(put->path);
	r->text = put->text;
	r->line = put->line;
	r->answer = put->answer;
	record_writer_wait(w, put->name);
	pthread_mutex_lock(&w->lock);
	table_add(&w->table, &r->node, hash64(r->name, size - 1, 0));
	STAILQ_INSERT_TAIL(&w->queue, r, link);
	pthread_cond_signal(&w->queued);
	pthread_mutex_unlock(&w->lock);
}

bool
record_writer_has(struct record_writer *w, const char *name)
{
	bool has;

	pthread_mutex_lock(&w->lock);
	has = record_writer_find(w, name) != NULL;
	pthread_mutex_unlock(&w->lock);
	return has;
}

char *
record_writer_text(struct record_writer *w, const char *name)
{
	const struct waiting_record *r;
	char *text;

	pthread_mutex_lock(&w->lock);
	r = record_writer_find(w, name);
	text = r != NULL ? xstrdup(r->next != NULL ? r->next : r->text) : NULL;
	pthread_mutex_unlock(&w->lock);
	return text;
}

void
record_writer_wait(struct record_writer *w, const char *name)
{
	pthread_mutex_lock(&w->lock);
	while (name != NULL ? record_writer_find(w, name) != NULL : w->table.n > 0)
		pthread_cond_wait(&w->written, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

size_t
record_writer_behind(struct record_writer *w)
{
	size_t n;

	pthread_mutex_lock(&w->lock);
	n = w->table.n;
	if (n <= RECORD_BATCH && (w->taken_ms == 0 || mono_ms() - w->taken_ms < RECORD_SLOW_MS))
		n = 0;
	pthread_mutex_unlock(&w->lock);
	return n;
}

void
record_writer_each(struct record_writer *w, record_writer_fn *fn, void *arg)
{
	const struct waiting_record *r;
	struct table_node *n = NULL;
	size_t slot = 0;

	pthread_mutex_lock(&w->lock);
	while ((n = table_walk(&w->table, &slot, n)) != NULL) {
		r = container_of(n, struct waiting_record, node);
		fn(arg, r->name, r->next != NULL ? r->next : r->text);
	}
	pthread_mutex_unlock(&w->lock);
}

void
record_writer_problem(struct record_writer *w, char *to, size_t size)
{
	pthread_mutex_lock(&w->lock);
	snprintf(to, size, "%s", w->problem);
	pthread_mutex_unlock(&w->lock);
}

uint64_t
record_writer_given_up(struct record_writer *w)
{
	uint64_t n;

	pthread_mutex_lock(&w->lock);
	n = w->given_up;
	pthread_mutex_unlock(&w->lock);
	return n;
}
