#include "meta/state/writer.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/privileges.h"
#include "base/core/thread.h"
#include "meta/state/store_values.h"

enum {
	RETRY_FIRST_MS = 100,
	RETRY_LOOK_MS = 250,
	RETRY_MOST_MS = 2000,
	LOOK_MS = 4000, /* between two looks whether the file is still there */
	ROOM_BYTES = 64 * 1024,
	STOP_MS = 1500
};

struct job {
	struct job *next;
	const struct store_batch *batch; /* NULL: a scan */
	writer_done_fn *done;
	writer_rows_fn *rows_fn;
	void *arg;
	bool told; /* the owner was notified that it is not committed yet */
	char *after;
	size_t limit;
	struct store_row *rows; /* copies */
	size_t n_rows;
	int status;
};

struct event {
	struct event *next;
	struct job *job; /* NULL: an event of the file */
	int status; /* of such an event: enum writer_event */
	bool last; /* the job is finished */
};

enum writer_event { WRITER_LOST, WRITER_REWRITTEN, WRITER_OPENED };

enum keep_kind { KEEP_GET, KEEP_PUT, KEEP_DEL, KEEP_READ, KEEP_DISCARD };

struct keep {
	enum keep_kind kind;
	writer_read_fn *read;
	void *arg;
	const char *key;
	const void *data;
	char **out;
	size_t *out_len;
	size_t len;
	int rc;
};

/* Argument of a post: outlives the writer if the loop turns after writer_stop. */
struct mail {
	struct writer *writer;
};

struct writer {
	struct writer_config config;
	char *path;
	/* used by the thread only */
	struct store *store; /* NULL while it cannot be opened */
	struct store_values values;
	bool opened; /* it was open once */
	/* why the file there is not what was committed, and is to be moved aside; NULL: it is */
	const char *foreign;
	bool lost; /* the file there is a new one, in which the values are not yet */
	pthread_t thread;
	pthread_mutex_t lock; /* protects everything below */
	pthread_cond_t work, answered;
	struct job *head, **tail;
	struct event *events, **last_event;
	struct mail *mail; /* posted to the loop and not delivered yet */
	struct keep *keep;
	struct writer_counts counts;
	uint64_t retry_at_ms, retry_ms, look_at_ms;
	bool stop, finished;
};

static void
free_job(struct job *job)
{
	for (size_t i = 0; i < job->n_rows; i++)
		free((void *)(uintptr_t)job->rows[i].key); /* the view is in the same allocation */
	free(job->rows);
	free(job->after);
	free(job);
}

static void
writer_deliver(struct writer *w, struct event *ev)
{
	struct job *job = ev->job;

	if (job == NULL && ev->status == WRITER_REWRITTEN)
		w->config.rewritten(w->config.arg);
	else if (job == NULL && ev->status == WRITER_OPENED)
		w->config.opened(w->config.arg);
	else if (job == NULL)
		w->config.lost(w->config.arg);
	else if (job->batch != NULL)
		job->done(job->arg, ev->status);
	else
		job->rows_fn(job->arg, ev->status, job->rows, job->n_rows);
	if (ev->last)
		free_job(job);
	free(ev);
}

static void
on_mail(void *arg)
{
	struct mail *mail = arg;
	struct writer *w = mail->writer;
	struct event *events;

	free(mail);
	if (w == NULL)
		return;
	pthread_mutex_lock(&w->lock);
	w->mail = NULL;
	events = take_ptr(&w->events);
	w->last_event = &w->events;
	pthread_mutex_unlock(&w->lock);
	while (events != NULL) {
		struct event *ev = events;

		events = ev->next;
		writer_deliver(w, ev);
	}
}

/* With the lock held. */
static void
writer_tell(struct writer *w, struct job *job, int status, bool last)
{
	struct event *ev = xcalloc(1, sizeof(*ev));

	ev->job = job;
	ev->status = status;
	ev->last = last;
	*w->last_event = ev;
	w->last_event = &ev->next;
	if (w->mail == NULL && !w->stop) {
		w->mail = xcalloc(1, sizeof(*w->mail));
		w->mail->writer = w;
		loop_post(w->config.loop, on_mail, w->mail);
	}
}

/* With the lock held: all waiting jobs may go on in memory. */
static void
tell_waiting(struct writer *w, int status)
{
	for (struct job *job = w->head; job != NULL; job = job->next) {
		if (job->batch != NULL && !job->told)
			writer_tell(w, job, status, false);
		job->told = true;
	}
}

/* Returns the number of files that were moved. */
static int
writer_move_aside(struct writer *w, struct err *err)
{
	bool there = w->foreign != NULL && access(w->path, F_OK) == 0;
	int rc = there ? store_move_aside(w->path, w->foreign, err) : 0;

	if (rc < 0)
		return rc;
	w->lost |= w->foreign != NULL;
	w->foreign = NULL;
	return there;
}

static int
writer_reopen(struct writer *w, struct err *err)
{
	struct store_report report = {0};
	int aside = writer_move_aside(w, err), rc;
	bool late = !w->opened;

	if (aside < 0)
		return aside;
	rc = store_open(&w->store, w->path, &report, err);
	if (rc == 0 && late)
		store_values_read(&w->values, w->store);
	w->lost |= report.moved_aside > 0 || (report.created && w->opened);
	w->opened |= rc == 0;
	if (rc == 0 && w->lost && (rc = store_commit(w->store, &w->values.all, err)) < 0)
		store_close(&w->store);
	pthread_mutex_lock(&w->lock);
	w->counts.moved_aside += (unsigned)aside + report.moved_aside;
	if (rc == 0 && w->lost)
		writer_tell(w, NULL, WRITER_LOST, false);
	else if (rc == 0 && late && !report.created)
		writer_tell(w, NULL, WRITER_OPENED, false);
	pthread_mutex_unlock(&w->lock);
	w->lost &= rc < 0;
	return rc;
}

/* On the thread, without the lock: opens the file if it is not open, writes it again if its path
 * does not lead to it any more, and begins a new one, to be filled from the hub, if another program
 * wrote into it: what it has beside that is told to nobody, and would be served after a restart. */
static int
writer_prepare(struct writer *w, struct err *err)
{
	int rc = 0;

	if (w->store == NULL)
		return writer_reopen(w, err);
	if (store_overwritten(w->store))
		rc = -EUCLEAN;
	else if (!store_moved(w->store))
		return 0;
	else if ((rc = store_rewrite(w->store, w->path, err)) < 0 && rc != -EUCLEAN)
		return rc; /* what is open is all that there is: it stays open */
	pthread_mutex_lock(&w->lock);
	w->counts.rewritten++;
	w->counts.rewritten_ms = mono_ms();
	writer_tell(w, NULL, WRITER_REWRITTEN, false);
	pthread_mutex_unlock(&w->lock);
	store_close(&w->store);
	if (rc < 0)
		w->foreign = "another program wrote into it while it was in use; stop the agent "
			     "before dataDir is changed";
	return writer_reopen(w, err);
}

static void
copy_row(void *arg, const struct store_row *row)
{
	struct job *job = arg;
	size_t key_len = strlen(row->key);
	char *copy = xmalloc(key_len + 1 + row->len + 1);

	memcpy(copy, row->key, key_len + 1);
	memcpy(copy + key_len + 1, row->view, row->len);
	copy[key_len + 1 + row->len] = '\0';
	job->rows[job->n_rows] = *row;
	job->rows[job->n_rows].key = copy;
	job->rows[job->n_rows].view = copy + key_len + 1;
	job->n_rows++;
}

/* On the thread, without the lock. */
static int
writer_perform(struct writer *w, struct job *job, struct err *err)
{
	int rc = writer_prepare(w, err);

	if (rc < 0)
		return rc;
	if (job->batch != NULL && (rc = store_commit(w->store, job->batch, err)) == 0) {
		for (size_t i = 0; i < job->batch->n; i++)
			store_values_take(&w->values, &job->batch->ops[i]);
	}
	if (job->batch != NULL)
		return rc;
	job->rows = xcalloc(job->limit, sizeof(*job->rows));
	return store_scan(w->store, job->after, job->limit, copy_row, job, err);
}

/* With the lock held. */
static void
writer_failed(struct writer *w, int status, const struct err *err)
{
	if (!w->counts.failing) {
		log_error("meta",
			"cannot write the database: %s; changes are used from memory meanwhile, "
			"and asked from the hub again after a restart file=%s error=\"%s\"",
			store_remedy(-status), w->path, err->text);
		w->counts.failing_since_ms = mono_ms();
	}
	w->counts.error = -status;
	w->retry_ms =
		w->counts.failing ? MIN(w->retry_ms * 2, (uint64_t)RETRY_MOST_MS) : RETRY_FIRST_MS;
	w->retry_at_ms = mono_ms() + w->retry_ms;
	w->counts.failing = true;
	w->counts.failures++;
	tell_waiting(w, status);
}

/* With the lock held. */
static void
writer_succeeded(struct writer *w)
{
	if (w->counts.failing)
		log_info("meta", "the database is written again after_s=%llu file=%s",
			(unsigned long long)(mono_ms() - w->counts.failing_since_ms) / 1000,
			w->path);
	w->counts.failing = false;
	w->counts.failing_since_ms = 0;
}

/* With the lock held, released during disk work. Performs the head job: it is done, or is retried
 * later. */
static void
do_head(struct writer *w)
{
	struct job *job = w->head;
	struct err err = {0};
	int rc;

	pthread_mutex_unlock(&w->lock);
	rc = writer_perform(w, job, &err);
	if (rc < 0 && job->batch != NULL && w->store != NULL && !store_moved(w->store))
		store_close(&w->store); /* opened anew: another disk may be mounted by then */
	pthread_mutex_lock(&w->lock);
	if (rc < 0 && job->batch != NULL) {
		writer_failed(w, rc, &err);
		if (!w->stop)
			return;
	} else if (rc == 0 && job->batch != NULL) {
		writer_succeeded(w);
		w->counts.commits++;
	}
	w->head = job->next;
	if (w->head == NULL)
		w->tail = &w->head;
	if (w->stop)
		free_job(job);
	else
		writer_tell(w, job, rc, true);
}

static int
writer_perform_read(struct writer *w, const struct keep *k)
{
	int rc = writer_prepare(w, NULL);

	if (rc == 0)
		rc = k->read(k->arg, w->store);
	if (rc < 0 && rc != -EUCLEAN) { /* the next look opens it, and tells that */
		store_close(&w->store);
		w->opened = false;
	}
	return rc;
}

static int
writer_perform_discard(struct writer *w)
{
	w->foreign = "it could not be opened before other services were in use";
	store_close(&w->store);
	return writer_reopen(w, NULL);
}

static int
perform_keep(struct writer *w, const struct keep *k)
{
	int rc;

	if (k->kind == KEEP_READ)
		return writer_perform_read(w, k);
	if (k->kind == KEEP_DISCARD)
		return writer_perform_discard(w);
	if ((rc = writer_prepare(w, NULL)) < 0)
		return rc;
	if (k->kind == KEEP_GET)
		return store_keep_get(w->store, k->key, k->out, k->out_len);
	if (k->kind == KEEP_DEL) {
		if ((rc = store_keep_del(w->store, k->key)) == 0)
			store_values_drop(&w->values, k->key);
		return rc;
	}
	if ((rc = store_keep_put(w->store, k->key, k->data, k->len)) == 0)
		store_values_take(&w->values,
			&(struct store_op){
				.kind = STORE_KEEP, .key = k->key, .data = k->data, .len = k->len});
	return rc;
}

/* With the lock held, released during disk work; loop 0 waits for the result. */
static void
do_keep(struct writer *w)
{
	struct keep *k = w->keep;
	int rc;

	pthread_mutex_unlock(&w->lock);
	rc = perform_keep(w, k);
	pthread_mutex_lock(&w->lock);
	k->rc = rc;
	w->keep = NULL;
	pthread_cond_signal(&w->answered);
}

/* With the lock held, released during disk work. */
static void
do_look(struct writer *w)
{
	struct err err = {0};
	int rc;

	pthread_mutex_unlock(&w->lock);
	rc = writer_prepare(w, &err);
	pthread_mutex_lock(&w->lock);
	w->look_at_ms = mono_ms() + LOOK_MS;
	if (rc < 0)
		writer_failed(w, rc, &err);
	else if (w->counts.failing)
		writer_succeeded(w);
}

static void
wait_for_work(struct writer *w)
{
	uint64_t until_ms = w->counts.failing ? w->retry_at_ms : w->look_at_ms;
	struct timespec at = {(time_t)(until_ms / 1000), (long)(until_ms % 1000) * 1000000};

	pthread_cond_timedwait(&w->work, &w->lock, &at);
}

/* With the lock held. Attempts to write on a full disk would wear it out: check for room first. */
static bool
writer_room(struct writer *w)
{
	struct statvfs st;

	if (w->counts.error != ENOSPC || w->stop)
		return true;
	if (statvfs(w->path, &st) < 0 || (uint64_t)st.f_bfree * st.f_frsize >= ROOM_BYTES)
		return true;
	w->retry_at_ms = mono_ms() + RETRY_LOOK_MS;
	return false;
}

/* With the lock held. After a failure a waiting job looks, too; and a file that could not be opened
 * at the start is opened by a look, where there is no hub and so nothing to write. */
static bool
writer_look_due(struct writer *w)
{
	if (w->counts.failing)
		return w->head == NULL && mono_ms() >= w->retry_at_ms && writer_room(w);
	return mono_ms() >= w->look_at_ms;
}

static void *
writer_work(void *arg)
{
	struct writer *w = arg;

	/* needed if dataDir belongs to another user */
	privileges_keep_thread(PRIVILEGE_FOREIGN_FILES);
	if (w->store != NULL)
		store_values_read(&w->values, w->store);
	pthread_mutex_lock(&w->lock);
	while (w->head != NULL || !w->stop) {
		bool due = w->head != NULL &&
			(!w->counts.failing || (mono_ms() >= w->retry_at_ms && writer_room(w)));

		if (w->keep != NULL)
			do_keep(w);
		else if (due || (w->stop && w->head != NULL))
			do_head(w);
		else if (writer_look_due(w))
			do_look(w);
		else {
			tell_waiting(w, -EIO); /* jobs that came while nothing can be written */
			wait_for_work(w);
		}
	}
	pthread_mutex_unlock(&w->lock);
	store_close(&w->store);
	pthread_mutex_lock(&w->lock);
	w->finished = true;
	pthread_cond_signal(&w->answered);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void
init_sync(struct writer *w)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->work, &attr);
	pthread_cond_init(&w->answered, &attr);
	pthread_condattr_destroy(&attr);
}

static void
free_writer(struct writer *w)
{
	while (w->events != NULL) {
		struct event *ev = w->events;

		w->events = ev->next;
		if (ev->last)
			free_job(ev->job);
		free(ev);
	}
	if (w->mail != NULL)
		w->mail->writer = NULL;
	pthread_cond_destroy(&w->work);
	pthread_cond_destroy(&w->answered);
	pthread_mutex_destroy(&w->lock);
	store_values_fini(&w->values);
	free(w->path);
	free(w);
}

int
writer_start(struct writer **out, const struct writer_config *config, struct store **store,
	struct err *err)
{
	struct writer *w = xcalloc(1, sizeof(*w));
	int rc;

	w->config = *config;
	w->path = xstrdup(config->path);
	w->tail = &w->head;
	w->last_event = &w->events;
	w->store = take_ptr(store);
	w->opened = w->store != NULL;
	init_sync(w);
	rc = thread_start(&w->thread, "database", 0, writer_work, w, err);
	if (rc < 0) {
		store_close(&w->store);
		free_writer(w);
		return rc;
	}
	*out = w;
	return 0;
}

static void
add_job(struct writer *w, struct job *job)
{
	pthread_mutex_lock(&w->lock);
	*w->tail = job;
	w->tail = &job->next;
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
}

void
writer_commit(struct writer *w, const struct store_batch *batch, writer_done_fn *done, void *arg)
{
	struct job *job = xcalloc(1, sizeof(*job));

	job->batch = batch;
	job->done = done;
	job->arg = arg;
	add_job(w, job);
}

void
writer_scan(struct writer *w, const char *after, size_t limit, writer_rows_fn *fn, void *arg)
{
	struct job *job = xcalloc(1, sizeof(*job));

	job->after = xstrdup(after);
	job->limit = limit;
	job->rows_fn = fn;
	job->arg = arg;
	add_job(w, job);
}

static int
ask_keep(struct writer *w, struct keep *k)
{
	pthread_mutex_lock(&w->lock);
	w->keep = k;
	pthread_cond_signal(&w->work);
	while (w->keep != NULL)
		pthread_cond_wait(&w->answered, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return k->rc;
}

int
writer_keep_get(struct writer *w, const char *key, char **data, size_t *len)
{
	struct keep k = {.kind = KEEP_GET, .key = key, .out = data, .out_len = len};

	return ask_keep(w, &k);
}

int
writer_keep_put(struct writer *w, const char *key, const void *data, size_t len)
{
	struct keep k = {.kind = KEEP_PUT, .key = key, .data = data, .len = len};

	return ask_keep(w, &k);
}

int
writer_keep_del(struct writer *w, const char *key)
{
	struct keep k = {.kind = KEEP_DEL, .key = key};

	return ask_keep(w, &k);
}

int
writer_read(struct writer *w, writer_read_fn *fn, void *arg)
{
	struct keep k = {.kind = KEEP_READ, .read = fn, .arg = arg};

	return ask_keep(w, &k);
}

int
writer_discard(struct writer *w)
{
	struct keep k = {.kind = KEEP_DISCARD};

	return ask_keep(w, &k);
}

struct writer_counts
writer_count(struct writer *w)
{
	struct writer_counts counts;

	pthread_mutex_lock(&w->lock);
	counts = w->counts;
	pthread_mutex_unlock(&w->lock);
	return counts;
}

bool
writer_stop(struct writer **out)
{
	struct writer *w = take_ptr(out);
	uint64_t until = mono_ms() + STOP_MS;
	struct timespec at = {(time_t)(until / 1000), (long)(until % 1000) * 1000000};
	bool finished;
	int rc = 0;

	if (w == NULL)
		return true;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->work);
	while (!w->finished && rc == 0)
		rc = pthread_cond_timedwait(&w->answered, &w->lock, &at);
	finished = w->finished;
	if (!finished && w->mail != NULL)
		w->mail->writer = NULL;
	pthread_mutex_unlock(&w->lock);
	if (!finished) {
		log_error("meta", "the disk does not answer; leaving what is not committed file=%s",
			w->path);
		pthread_detach(w->thread);
		return false;
	}
	pthread_join(w->thread, NULL);
	free_writer(w);
	return true;
}
