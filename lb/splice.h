/*
 * Bulk from socket to socket without a copy (splice): through one pipe of the worker's, which is
 * empty again after each call, so that no connection owns one. What the receiving socket does not
 * take is read out and waits in its peer's `out`, as anything else. Measured on a veth: half the
 * CPU of copying (bench/RESULTS.md).
 */
#ifndef EDGEWAY_LB_SPLICE_H
#define EDGEWAY_LB_SPLICE_H

#include "lb/private.h"

enum { SPLICE_BYTES = 256 * 1024 }; /* most in one call */

/* Nothing may wait in to->out. Bytes moved; -EAGAIN: nothing there; -ENOSYS: cannot be done here,
 * or the end of the stream: read instead; other -errno: one of the two is broken, to->broken
 * tells. */
ssize_t splice_move(struct worker *w, struct peer *from, struct peer *to, size_t most);
/* The first `most` after n bytes were copied where `most` might have been; 0: that was not much, go
 * on copying. */
uint32_t splice_first(ssize_t n, size_t most);
/* The next `most` after a move of n bytes in a step of `step`: it grows while the receiver keeps
 * up; 0: not worth it. */
uint32_t splice_next(uint32_t step, ssize_t n, const struct peer *to);
void splice_fini(struct worker *w);

#endif
