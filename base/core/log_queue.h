/*
 * Writes lines to a descriptor that may be slow (stderr, when a log collector hangs) on a thread of
 * its own, so that callers never wait. At most `limit` bytes wait; more are dropped, and the caller
 * counts the drops.
 *
 *	rc = log_queue_new(&l, STDERR_FILENO, 4 << 20, err);
 *	if (!log_queue_put(l, &pending))	// any thread; takes the bytes out of `pending`
 *		dropped += n;
 *	log_queue_free(&l);			// waits up to 1 s for what is queued
 */
#ifndef EDGEWAY_BASE_CORE_LOG_QUEUE_H
#define EDGEWAY_BASE_CORE_LOG_QUEUE_H

#include "base/core/buf.h"
#include "base/core/err.h"

struct log_queue;

/* The caller keeps ownership of the descriptor. */
int log_queue_new(struct log_queue **l, int fd, size_t limit, struct err *err);
/* False: dropped. Empty `bytes`: true. */
bool log_queue_put(struct log_queue *l, struct buf *bytes);
void log_queue_free(struct log_queue **l);

#endif
