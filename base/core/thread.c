#include "base/core/thread.h"

#include <signal.h>
#include <string.h>

int
thread_start(pthread_t *thread, const char *name, size_t stack_bytes, thread_fn *fn, void *arg,
	struct err *err)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int rc;

	pthread_attr_init(&attr);
	if (stack_bytes > 0)
		pthread_attr_setstacksize(&attr, stack_bytes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc != 0)
		return err_set(err, rc,
			"cannot start the thread \"%s\": %s: is a limit of processes too low "
			"(TasksMax, pids of the container, ulimit -u)?",
			name, strerror(rc));
	pthread_setname_np(*thread, name);
	return 0;
}
