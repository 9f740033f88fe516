#include "src/common/workers.h"

#include <stdio.h>
#include <unistd.h>

#include "base/core/privileges.h"
#include "base/core/thread.h"

struct workers {
	size_t n, each;
	const char *const *kinds;
	struct loop **loops;
	pthread_t *threads;
	size_t n_running;
};

size_t
workers_wanted(size_t configured)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (configured > 0)
		return configured;
	return cores < 1 ? 1 : MIN((size_t)cores, (size_t)WORKERS_MOST);
}

int
workers_new(struct workers **out, const char *const kinds[], size_t n_kinds, size_t each,
	struct err *err)
{
	struct workers *w = xcalloc(1, sizeof *w);
	const size_t n = n_kinds * each;

	w->kinds = kinds;
	w->each = each;
	w->loops = xcalloc(n, sizeof *w->loops);
	w->threads = xcalloc(n, sizeof *w->threads);
	for (; w->n < n; w->n++) {
		int rc = loop_new(&w->loops[w->n], err);

		if (rc < 0) {
			workers_stop(&w);
			return rc;
		}
	}
	*out = w;
	return 0;
}

struct loop *const *
workers_loops(const struct workers *w)
{
	return w->loops;
}

size_t
workers_count(const struct workers *w)
{
	return w->n;
}

const char *
workers_name(const struct workers *w, size_t i, char to[WORKER_NAME_MAX])
{
	snprintf(to, WORKER_NAME_MAX, "%.8s-%u", w->kinds[i / w->each],
		(unsigned)(i % w->each) % 1000 + 1);
	return to;
}

static void *
workers_thread(void *arg)
{
	/* for SO_MARK of the connections that it opens; loop 0 binds sockets and opens files */
	privileges_keep_thread(PRIVILEGE_NET_ADMIN);
	loop_run(arg);
	return NULL;
}

static void
stop_loop(void *loop)
{
	loop_stop(loop);
}

static void
workers_end_threads(struct workers *w)
{
	for (size_t i = 0; i < w->n_running; i++) {
		loop_post(w->loops[i], stop_loop, w->loops[i]);
		pthread_join(w->threads[i], NULL);
	}
	w->n_running = 0;
}

int
workers_run(struct workers *w, struct err *err)
{
	char name[WORKER_NAME_MAX];
	int rc;

	for (; w->n_running < w->n; w->n_running++) {
		size_t i = w->n_running;

		rc = thread_start(&w->threads[i], workers_name(w, i, name), 0, workers_thread,
			w->loops[i], err);
		if (rc < 0) {
			workers_end_threads(w);
			return rc;
		}
	}
	return 0;
}

void
workers_stop(struct workers **out)
{
	struct workers *w = take_ptr(out);

	if (w == NULL)
		return;
	workers_end_threads(w);
	for (size_t i = 0; i < w->n; i++)
		loop_free(&w->loops[i]);
	free(w->threads);
	free(w->loops);
	free(w);
}
