#include "src/common/workers.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/privileges.h"

struct workers {
	size_t n, each;
	const char *const *kinds;
	struct loop **loops;
	pthread_t *threads;
	bool running;
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

void
workers_run(struct workers *w)
{
	sigset_t all, before;

	/* signals belong to loop 0 */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (size_t i = 0; i < w->n; i++) {
		char name[WORKER_NAME_MAX];
		int rc = pthread_create(&w->threads[i], NULL, workers_thread, w->loops[i]);

		assert(rc == 0);
		pthread_setname_np(w->threads[i], workers_name(w, i, name));
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	w->running = true;
}

static void
stop_loop(void *loop)
{
	loop_stop(loop);
}

void
workers_stop(struct workers **out)
{
	struct workers *w = take_ptr(out);

	if (w == NULL)
		return;
	for (size_t i = 0; i < w->n && w->running; i++) {
		loop_post(w->loops[i], stop_loop, w->loops[i]);
		pthread_join(w->threads[i], NULL);
	}
	for (size_t i = 0; i < w->n; i++)
		loop_free(&w->loops[i]);
	free(w->threads);
	free(w->loops);
	free(w);
}
