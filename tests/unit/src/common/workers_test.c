/* Under a limit of processes a thread may not be had: that is an error which names the remedy. */
#include "src/common/workers.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/log_queue.h"

int __wrap_pthread_create(
	pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __real_pthread_create(
	pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
static unsigned threads_left, threads;

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	if (threads_left == 0)
		return EAGAIN;
	threads_left--;
	threads++;
	return __real_pthread_create(thread, attr, fn, arg);
}

/* Those that were started have ended, and may be started again. */
static void
all_or_none_run(void **state)
{
	static const char *const kinds[] = {"tls", "tunnels"};
	struct workers *w = NULL;
	struct err err = {0};

	(void)state;
	assert_int_equal(workers_new(&w, kinds, 2, 2, &err), 0);
	threads_left = 3;
	assert_int_equal(workers_run(w, &err), -EAGAIN);
	assert_non_null(strstr(err.text, "\"tunnels-2\""));
	assert_non_null(strstr(err.text, "TasksMax"));
	threads_left = 4;
	assert_int_equal(workers_run(w, &err), 0);
	assert_int_equal(threads, 7);
	workers_stop(&w);
	assert_int_equal(workers_new(&w, kinds, 2, 1, &err), 0);
	threads_left = 1;
	assert_int_equal(workers_run(w, &err), -EAGAIN);
	workers_stop(&w);
	assert_null(w);
}

static void
no_log_without_a_thread(void **state)
{
	struct log_queue *l = NULL;
	struct err err = {0};

	(void)state;
	threads_left = 0;
	assert_int_equal(log_queue_new(&l, STDERR_FILENO, 100, &err), -EAGAIN);
	assert_null(l);
	assert_non_null(strstr(err.text, "TasksMax"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_or_none_run),
		cmocka_unit_test(no_log_without_a_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
