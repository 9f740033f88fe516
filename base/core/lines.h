/*
 * Lines for a descriptor that may be slow (stderr, when a log collector hangs): written by a thread
 * of its own, so that who hands them over never waits. At most `limit` bytes wait; more are
 * dropped, and the caller counts.
 *
 *	lines_new(&l, STDERR_FILENO, 4 << 20);
 *	if (!lines_put(l, &pending))	// any thread; takes the bytes, `pending` is empty afterwards
 *		dropped += n;
 *	lines_free(&l);			// gives what waits a second
 */
#ifndef EDGEWAY_BASE_CORE_LINES_H
#define EDGEWAY_BASE_CORE_LINES_H

#include "base/core/buf.h"

struct lines;

/* The descriptor stays the caller's. */
void lines_new(struct lines **l, int fd, size_t limit);
/* False: dropped. Nothing in it: true. */
bool lines_put(struct lines *l, struct buf *bytes);
void lines_free(struct lines **l);

#endif
