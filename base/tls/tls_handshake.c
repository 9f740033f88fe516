/*
 * A handshake belongs to its worker from on_start to its end, on_news or on_release; after on_news
 * the owner has it. The loops' posts, which keep their order, are all that the two exchange.
 *
 *	owner    new ------------------------> on_news: done()
 *	worker        on_start, steps, end ----^
 *
 *	owner    free ---------------> (on_news: frees the stream) ---> on_gone
 *	worker          (end of it)              on_release ------------^
 */
#include "base/tls/tls_handshake.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/core/figures.h"

enum { WORKER_NICE = 10 /* a tenth of a processor that the main thread wants, too */ };

struct handshake_worker {
	struct tls_handshakes *pool;
	struct loop *loop;
	struct preauth *preauth;
	_Atomic uint64_t waiting, done, failed;
};

struct tls_handshakes {
	size_t n, next;
	_Atomic uint64_t running; /* workers that have not ended */
	struct handshake_worker workers[];
};

struct tls_handshake {
	struct loop *loop;
	struct handshake_worker *worker;
	tls_handshake_fn *done;
	void *arg;
	struct addr from;
	bool resumes;
	bool released; /* the owner's */
	struct preauth_conn *owners; /* the owner's `place`; NULL: none any more */
	/* the worker's until on_news */
	int fd; /* until the handshake begins */
	struct ssl_ctx_st *ctx;
	char *alpn;
	struct preauth_conn place;
	struct tls_stream *stream;
	bool over;
	char why[256];
};

static void
handshake_destroy(struct tls_handshake *h)
{
	tls_stream_free(&h->stream);
	pki_ctx_free(&h->ctx);
	if (h->fd >= 0)
		close(h->fd);
	free(h->alpn);
	free(h);
}

/* --- on the owner's loop -------------------------------------------------------------------- */

static void
handshake_leave_place(struct tls_handshake *h)
{
	struct preauth_conn *owners = take_ptr(&h->owners);

	if (owners != NULL)
		owners->branch = NULL;
}

static void
handshake_on_news(void *arg)
{
	struct tls_handshake *h = arg;
	struct tls_stream *stream = take_ptr(&h->stream);

	if (h->released) {
		tls_stream_free(&stream);
		return; /* on_gone comes */
	}
	handshake_leave_place(h);
	if (stream != NULL)
		tls_stream_move(stream, h->loop);
	h->done(h->arg, stream, h->why);
	handshake_destroy(h);
}

static void
handshake_on_gone(void *arg)
{
	handshake_destroy(arg);
}

/* --- on the worker's loop ------------------------------------------------------------------- */

static void
handshake_end(struct tls_handshake *h)
{
	h->over = true;
	preauth_leave(&h->place);
	atomic_store(&h->place.waits_for_us, true);
	atomic_fetch_sub(&h->worker->waiting, 1);
}

static void
handshake_tell(struct tls_handshake *h, const char *why)
{
	atomic_fetch_add(why != NULL ? &h->worker->failed : &h->worker->done, 1);
	if (why != NULL)
		snprintf(h->why, sizeof h->why, "%s", why);
	handshake_end(h);
	if (why != NULL)
		tls_stream_free(&h->stream);
	else
		tls_stream_move(h->stream, NULL);
	loop_post(h->loop, handshake_on_news, h);
}

static void
handshake_on_tls(void *arg, enum tls_event event)
{
	struct tls_handshake *h = arg;

	handshake_tell(h, event == TLS_OPEN ? NULL : tls_stream_why(h->stream));
}

static void
handshake_on_dropped(void *arg)
{
	handshake_tell(arg, "its place was needed: too many handshakes are under way");
}

/* A processor that a worker shares with the main thread is the main thread's first. */
static void
handshake_worker_on_begin(void *arg)
{
	(void)arg;
	(void)setpriority(PRIO_PROCESS, 0, WORKER_NICE); /* of the thread */
}

static void
handshake_on_start(void *arg)
{
	struct tls_handshake *h = arg;
	struct tls_setup setup = {
		.loop = h->worker->loop,
		.ctx = h->ctx,
		.alpn = h->alpn,
		.place = &h->place,
		.resumes = h->resumes,
		.on = handshake_on_tls,
		.arg = h,
	};
	struct err err = {0};

	if (!preauth_enter(h->worker->preauth, &h->place, &h->from, loop_now_ms(setup.loop))) {
		handshake_tell(h, "too many handshakes are under way");
		return;
	}
	setup.fd = take_fd(&h->fd);
	if (tls_stream_new(&setup, &h->stream, &err) < 0)
		handshake_tell(h, err.text);
}

static void
handshake_on_release(void *arg)
{
	struct tls_handshake *h = arg;

	if (!h->over) {
		handshake_end(h);
		tls_stream_free(&h->stream);
	}
	loop_post(h->loop, handshake_on_gone, h);
}

/* --- handshakes ----------------------------------------------------------------------------- */

struct tls_handshake *
tls_handshake_new(const struct tls_handshake_setup *setup)
{
	struct tls_handshakes *pool = setup->pool;
	struct tls_handshake *h = xcalloc(1, sizeof *h);

	h->loop = setup->loop;
	h->worker = &pool->workers[pool->next++ % pool->n];
	h->done = setup->done;
	h->arg = setup->arg;
	h->from = *setup->from;
	h->resumes = setup->resumes;
	h->fd = setup->fd;
	h->ctx = setup->ctx;
	pki_ctx_ref(h->ctx);
	h->alpn = xstrdup(setup->alpn);
	h->place =
		(struct preauth_conn){.drop = handshake_on_dropped, .arg = h, .waits_for_us = true};
	h->owners = setup->place;
	if (h->owners != NULL)
		h->owners->branch = &h->place;
	atomic_fetch_add(&h->worker->waiting, 1);
	loop_post(h->worker->loop, handshake_on_start, h);
	return h;
}

void
tls_handshake_free(struct tls_handshake **out)
{
	struct tls_handshake *h = take_ptr(out);

	if (h == NULL)
		return;
	h->released = true;
	handshake_leave_place(h);
	loop_post(h->worker->loop, handshake_on_release, h);
}

/* --- the workers ---------------------------------------------------------------------------- */

struct tls_handshakes *
tls_handshakes_new(struct loop *const *workers, size_t n, const struct preauth *preauth)
{
	struct tls_handshakes *pool = xcalloc(1, sizeof *pool + n * sizeof *pool->workers);

	assert(n > 0 && n <= TLS_HANDSHAKES_WORKERS_MAX);
	pool->n = n;
	pool->running = n;
	for (size_t i = 0; i < n; i++) {
		pool->workers[i].pool = pool;
		pool->workers[i].loop = workers[i];
		pool->workers[i].preauth = preauth_branch(preauth, workers[i]);
		loop_post(workers[i], handshake_worker_on_begin, NULL);
	}
	return pool;
}

static void
handshake_worker_on_end(void *arg)
{
	struct handshake_worker *w = arg;

	preauth_free(&w->preauth);
	if (atomic_fetch_sub(&w->pool->running, 1) == 1)
		free(w->pool);
}

void
tls_handshakes_free(struct tls_handshakes **out)
{
	struct tls_handshakes *pool = take_ptr(out);
	size_t n = pool != NULL ? pool->n : 0;

	/* the last one frees the pool */
	for (size_t i = 0; i < n; i++)
		loop_post(pool->workers[i].loop, handshake_worker_on_end, &pool->workers[i]);
}

#define WORKER(member, metric, help)                                                               \
	FIGURE(struct handshake_worker, member, metric, NULL, help, NULL)

static const struct figure worker_figures[] = {
	WORKER(waiting, "edgeway_hub_worker_handshakes",
		"TLS handshakes of tunnels under way, by worker."),
	WORKER(done, "edgeway_hub_worker_handshakes_total",
		"TLS handshakes of tunnels completed, by worker."),
	WORKER(failed, "edgeway_hub_worker_handshakes_failed_total",
		"TLS handshakes of tunnels that failed, by worker."),
};

void
tls_handshakes_metrics(const struct tls_handshakes *pool, struct metrics *m)
{
	const void *of[TLS_HANDSHAKES_WORKERS_MAX];
	const char *labels[TLS_HANDSHAKES_WORKERS_MAX];
	char text[TLS_HANDSHAKES_WORKERS_MAX][40];

	if (pool == NULL)
		return;
	for (size_t i = 0; i < pool->n; i++) {
		of[i] = &pool->workers[i];
		labels[i] = text[i];
		snprintf(text[i], sizeof text[i], "worker=\"%zu\"", i + 1);
	}
	figures_metrics_of(FIGURES(worker_figures), of, labels, pool->n, m);
}
