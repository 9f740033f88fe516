#include "base/tls/tls_workers.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/core/figures.h"

enum { WORKER_NICE = 10 /* a tenth of a processor that the main thread wants, too */ };

struct tls_worker {
	struct tls_workers *of;
	struct loop *loop;
	struct preauth *preauth;
	_Atomic uint64_t waiting, done, failed;
};

struct tls_workers {
	size_t n, next;
	_Atomic uint64_t running; /* workers that have not ended */
	struct tls_worker workers[];
};

/* A processor that a worker shares with the main thread is the main thread's first. */
static void
tls_worker_on_begin(void *arg)
{
	(void)arg;
	(void)setpriority(PRIO_PROCESS, 0, WORKER_NICE); /* of the thread */
}

struct tls_workers *
tls_workers_new(struct loop *const *loops, size_t n, const struct preauth *preauth)
{
	struct tls_workers *w = xcalloc(1, sizeof *w + n * sizeof *w->workers);

	assert(n > 0 && n <= TLS_WORKERS_MAX);
	w->n = n;
	w->running = n;
	for (size_t i = 0; i < n; i++) {
		w->workers[i].of = w;
		w->workers[i].loop = loops[i];
		w->workers[i].preauth = preauth_branch(preauth, loops[i]);
		loop_post(loops[i], tls_worker_on_begin, NULL);
	}
	return w;
}

static void
tls_worker_on_end(void *arg)
{
	struct tls_worker *w = arg;

	preauth_free(&w->preauth);
	if (atomic_fetch_sub(&w->of->running, 1) == 1)
		free(w->of);
}

void
tls_workers_free(struct tls_workers **out)
{
	struct tls_workers *w = take_ptr(out);
	size_t n = w != NULL ? w->n : 0;

	/* the last one frees them all */
	for (size_t i = 0; i < n; i++)
		loop_post(w->workers[i].loop, tls_worker_on_end, &w->workers[i]);
}

struct tls_worker *
tls_workers_next(struct tls_workers *w)
{
	return &w->workers[w->next++ % w->n];
}

struct loop *
tls_worker_loop(const struct tls_worker *w)
{
	return w->loop;
}

struct preauth *
tls_worker_preauth(const struct tls_worker *w)
{
	return w->preauth;
}

void
tls_worker_begun(struct tls_worker *w)
{
	atomic_fetch_add(&w->waiting, 1);
}

void
tls_worker_ended(struct tls_worker *w, enum tls_worker_result result)
{
	atomic_fetch_sub(&w->waiting, 1);
	if (result != TLS_WORKER_GIVEN_UP)
		atomic_fetch_add(result == TLS_WORKER_DONE ? &w->done : &w->failed, 1);
}

#define WORKER(member, metric, help) FIGURE(struct tls_worker, member, metric, NULL, help, NULL)

static const struct figure worker_figures[] = {
	WORKER(waiting, "edgeway_hub_worker_handshakes", "TLS handshakes under way, by worker."),
	WORKER(done, "edgeway_hub_worker_handshakes_total", "TLS handshakes completed, by worker."),
	WORKER(failed, "edgeway_hub_worker_handshakes_failed_total",
		"TLS handshakes that failed, by worker."),
};

void
tls_workers_metrics(const struct tls_workers *w, struct metrics *m)
{
	const void *of[TLS_WORKERS_MAX];
	const char *labels[TLS_WORKERS_MAX];
	char text[TLS_WORKERS_MAX][40];

	if (w == NULL)
		return;
	for (size_t i = 0; i < w->n; i++) {
		of[i] = &w->workers[i];
		labels[i] = text[i];
		snprintf(text[i], sizeof text[i], "worker=\"%zu\"", i + 1);
	}
	figures_metrics_of(FIGURES(worker_figures), of, labels, w->n, m);
}
