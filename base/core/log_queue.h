/*
 * Lines for a descriptor that may be slow (stderr, when a log collector hangs): written by a thread
 * of its own, so that who hands them over never waits. At most `limit` bytes wait; more are
 * dropped, and the caller counts.
 *
 *	log_queue_new(&l, STDERR_FILENO, 4 << 20);
 *	if (!log_queue_put(l, &pending))	// any thread; takes the bytes, `pending` is empty afterwards
 *		dropped += n;
 *	log_queue_free(&l);			// gives what waits a second
 */
#ifndef EDGEWAY_BASE_CORE_LOG_QUEUE_H
#define EDGEWAY_BASE_CORE_LOG_QUEUE_H

#include "base/core/buf.h"

struct log_queue;

/* The descriptor stays the caller's. */
void log_queue_new(struct log_queue **l, int fd, size_t limit);
/* False: dropped. Nothing in it: true. */
bool log_queue_put(struct log_queue *l, struct buf *bytes);
void log_queue_free(struct log_queue **l);

#endif
