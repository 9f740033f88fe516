/*
 * Moves bulk data from socket to socket without a copy (splice), through one pipe per worker, which
 * is empty again after each call, so that no connection owns a pipe. What the receiving socket does
 * not take is read from the pipe and waits in its peer's `out` as usual. Measured on a veth: half
 * the CPU of copying (bench/RESULTS.md).
 */
#ifndef EDGEWAY_LB_PROXY_SPLICE_H
#define EDGEWAY_LB_PROXY_SPLICE_H

#include "lb/proxy/worker.h"

enum { SPLICE_BYTES = 256 * 1024 }; /* most in one call */

/* to->out must be empty. Returns bytes moved; -EAGAIN: nothing to read; -ENOSYS: not possible here,
 * or the end of the stream: use read instead; other -errno: one of the two is broken, to->broken
 * says which. */
ssize_t splice_move(struct worker *w, struct peer *from, struct peer *to, size_t most);
/* The first `most`, after n bytes of `most` possible ones were copied; 0: too few, continue
 * copying. */
uint32_t splice_first(ssize_t n, size_t most);
/* The next `most`, after a move of n bytes with limit `step`: it grows while the receiver keeps up;
 * 0: splicing is not worthwhile. */
uint32_t splice_next(uint32_t step, ssize_t n, const struct peer *to);
void splice_fini(struct worker *w);

#endif
