/*
 * The small sends of one turn of a loop, given to the kernel with one system call (io_uring)
 * instead of one each. Bytes are copied; none waits longer than until send_ring_submit, and sends
 * never block: when that returns, each owner knows what the socket did not take. The ring can do
 * nothing but send: the kernel refuses every other operation on it (IORING_RESTRICTION_SQE_OP).
 *
 * Make it before the system calls are filtered (base/os/sandbox.h). From then on it belongs to the
 * thread of one loop, which submits at the end of each turn (loop_at_turn_end). An owner that goes,
 * or uses its socket otherwise, submits first. One owner has at most one send in the ring.
 *
 *	if (!send_ring_add(ring, fd, iov, 2, on_sent, conn))
 *		sendmsg(...);
 */
#ifndef EDGEWAY_BASE_OS_SEND_RING_H
#define EDGEWAY_BASE_OS_SEND_RING_H

#include <sys/uio.h>

#include "base/core/err.h"

struct send_ring;

/* `rest`: what the socket did not take, for now or because it is broken, which the next send of it
 * tells. May not add to the ring. */
typedef void send_ring_fn(void *owner, const char *rest, size_t len);

int send_ring_new(struct send_ring **ring, struct err *err);
/* 0; or the -errno with which the kernel has refused it, after which it takes nothing more. From
 * any thread. */
int send_ring_error(const struct send_ring *ring);
/* Would send_ring_add take so many bytes? NULL: there is no ring. */
bool send_ring_takes(const struct send_ring *ring, size_t len);
/* Nothing is in it any more. */
void send_ring_free(struct send_ring **ring);
/* Returns false if it is too much for the ring, and nothing was done. A full ring is submitted. */
bool send_ring_add(struct send_ring *ring, int fd, const struct iovec *iov, int n, send_ring_fn *fn,
	void *owner);
/* The owner's send is in the ring: it goes on with a FIN when it is told of its end, and the last
 * segment is to carry that. */
void send_ring_more(struct send_ring *ring, const void *owner);
/* void *: a loop_fn. */
void send_ring_submit(void *ring);

#endif
