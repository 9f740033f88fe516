/*
 * Starts a thread. No signals go to it: these belong to loop 0. Where the system gives no thread,
 * as under a limit of processes, the error says what to look at.
 *
 *	rc = thread_start(&t->thread, "records", 0, records_thread, t, err);
 */
#ifndef EDGEWAY_BASE_CORE_THREAD_H
#define EDGEWAY_BASE_CORE_THREAD_H

#include <pthread.h>
#include <stddef.h>

#include "base/core/err.h"

typedef void *thread_fn(void *arg);

/* name: 15 bytes at most. stack_bytes: 0: the usual size. */
int thread_start(pthread_t *thread, const char *name, size_t stack_bytes, thread_fn *fn, void *arg,
	struct err *err);

#endif
