/*
 * The table holds a record from record_writer_put until its file is there. The thread takes what is
 * queued, up to RECORD_BATCH, writes without the lock, and syncs the journal and the folder once
 * for all of it. What is put for a name meanwhile is queued after that, the last of it alone.
 *
 *	put ──► table, queue ──► batch ──► its file
 *	              ▲           │
 *	            retry      refused, and nobody waits ──► failed ──► put or waited for by name: dropped
 *	              └─────────────────────────────────────────┘
 */
#include "hub/identity/record_writer.h"

#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

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
	struct table failed; /* record_writer_retry puts them into queue and table again */
	/* the thread's: a name for a file where the last one was refused, and whether the journal
	 * may be what refused it; NULL: the disk takes files */
	char *probe;
	bool probe_journal;
	bool probes; /* it is to be written */
	uint64_t changes;
	uint64_t taken_ms; /* since when a batch is being written; 0: none is */
	char problem[256];
	char *journal;
};

static struct waiting_record *
record_writer_find_in(const struct table *table, const char *name)
{
	struct table_node *n = table_first(table, hash64(name, strlen(name), 0));

	for (; n != NULL; n = table_next(n)) {
		struct waiting_record *r = container_of(n, struct waiting_record, node);

		if (strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}

static struct waiting_record *
record_writer_find(const struct record_writer *w, const char *name)
{
	return record_writer_find_in(&w->table, name);
}

static void
waiting_record_move(struct waiting_record *r, struct table *from, struct table *to)
{
	table_remove(from, &r->node);
	table_add(to, &r->node, hash64(r->name, strlen(r->name), 0));
}

static void
waiting_record_free(struct waiting_record *r)
{
	free(r->path);
	free(r->text);
	free(r);
}

/* name: NULL: all. */
static void
record_writer_drop_failed(struct record_writer *w, const char *name)
{
	struct waiting_record *r;
	struct table_node *n;
	size_t slot = 0;

	if (name == NULL) {
		while ((n = table_walk(&w->failed, &slot, NULL)) != NULL) {
			table_remove(&w->failed, n);
			waiting_record_free(container_of(n, struct waiting_record, node));
		}
	} else if ((r = record_writer_find_in(&w->failed, name)) != NULL) {
		table_remove(&w->failed, &r->node);
		waiting_record_free(r);
	}
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
			"a node's record is not written, and will be tried again; if it is the "
			"first one, a token could give the name away until then, while the node "
			"is not connected node=%s error=\"cannot write %s: %s\"",
			r->name, r->path, strerror(-r->rc));
	}
	if (last != NULL)
		file_sync_folder(last->path);
	return failed;
}

static void
record_writer_tell(struct record_writer *w, int rc)
{
	if (rc < 0)
		snprintf(w->problem, sizeof w->problem,
			"nodes' certificates cannot be noted under dataDir: %s", strerror(-rc));
	if (rc < 0 || w->failed.n > 0)
		return;
	w->problem[0] = '\0';
	w->probes = false;
	free(take_ptr(&w->probe));
}

/* For where no record is left to try again, as its owner was told or it was dropped. */
static void
record_writer_note_probe(struct record_writer *w, const struct waiting_record *r)
{
	free(w->probe);
	w->probe = xasprintf("%s.tmp.probe", r->path); /* no name of a node */
	w->probe_journal = r->line != NULL;
}

static void
record_writer_probe(struct record_writer *w)
{
	int rc = 0;

	w->probes = false;
	pthread_mutex_unlock(&w->lock);
	if (w->probe_journal)
		rc = file_append(w->journal, "", 0, JOURNAL_MODE);
	if (rc == 0)
		rc = file_replace(w->probe, "probe\n", 6, RECORD_MODE);
	if (rc == 0)
		unlink(w->probe);
	pthread_mutex_lock(&w->lock);
	record_writer_tell(w, rc);
}

static void
record_writer_done(struct record_writer *w, struct waiting_records *batch, int rc)
{
	struct waiting_record *r;

	while ((r = STAILQ_FIRST(batch)) != NULL) {
		bool told = r->answer != NULL;

		STAILQ_REMOVE_HEAD(batch, link);
		if (r->rc < 0)
			record_writer_note_probe(w, r);
		if (told) {
			r->answer->rc = r->rc;
			loop_post(r->answer->loop, r->answer->fn, r->answer);
			r->answer = NULL;
		}
		free(take_ptr(&r->line));
		r->taken = false;
		if (r->next != NULL) {
			free(r->text);
			r->text = take_ptr(&r->next);
			STAILQ_INSERT_TAIL(&w->queue, r, link);
		} else if (r->rc < 0 && !told) {
			waiting_record_move(r, &w->table, &w->failed);
		} else {
			table_remove(&w->table, &r->node);
			waiting_record_free(r);
		}
	}
	record_writer_tell(w, rc);
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
		while (STAILQ_EMPTY(&w->queue) && !w->probes && !w->ending)
			pthread_cond_wait(&w->queued, &w->lock);
		if (STAILQ_EMPTY(&w->queue) && w->probes) {
			record_writer_probe(w);
			continue;
		}
		if (STAILQ_EMPTY(&w->queue))
			break;
		record_writer_take(w, &batch);
		w->taken_ms = mono_ms();
		pthread_mutex_unlock(&w->lock);
		failed = 0;
		rc = record_writer_write(w, &batch, &failed);
		pthread_mutex_lock(&w->lock);
		w->changes += failed;
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
	record_writer_drop_failed(w, NULL);
	table_fini(&w->table);
	table_fini(&w->failed);
	free(w->probe);
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
	record_writer_drop_failed(w, name);
	pthread_mutex_unlock(&w->lock);
}

void
record_writer_retry(struct record_writer *w)
{
	struct waiting_record *r;
	struct table_node *n;
	size_t slot = 0;

	pthread_mutex_lock(&w->lock);
	w->probes = w->probe != NULL;
	while ((n = table_walk(&w->failed, &slot, NULL)) != NULL) {
		r = container_of(n, struct waiting_record, node);
		waiting_record_move(r, &w->failed, &w->table);
		STAILQ_INSERT_TAIL(&w->queue, r, link);
		w->changes++;
	}
	pthread_cond_signal(&w->queued);
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
record_writer_changes(struct record_writer *w)
{
	uint64_t n;

	pthread_mutex_lock(&w->lock);
	n = w->changes;
	pthread_mutex_unlock(&w->lock);
	return n;
}
