/*
 * The budget of what is held for clients. Two supplies (base/core/fair_share), each shared by all
 * workers: our own buffers (answers that are not read, requests that are not whole or wait behind
 * another, bodies), and the kernel's buffers of the same connections. What one client may hold is
 * what it leaves to all others.
 *
 * A connection's buffers shrink as its client's room does (memory_allowance): more than that is not
 * read from the other side, whose kernel then holds it back. Nor is more read of a long transfer
 * than its receiver's socket has room for (memory_step), so that one that reads slowly holds little
 * whatever there is. When a client has more than its share all the same, the one that has most
 * loses connections: first those that hold something and have made no progress for a second, then
 * idle ones; and, only where the whole budget is used up, any of its own.
 *
 * Limits: lb.memory, else what the control group or the machine has (memory_open). On the worker's
 * loop but for memory_open and memory_close.
 *
 *	n = peer_read(&f->peer, w->scratch, memory_allowance(f));
 *	...
 *	memory_settle(f);	// last in the callback: f may be closed now
 */
#ifndef EDGEWAY_LB_MEMORY_H
#define EDGEWAY_LB_MEMORY_H

#include "lb/private.h"

enum {
	MEMORY_ALLOWANCE_LEAST = 4096, /* of a connection and direction, however little there is */
	MEMORY_ALLOWANCE_MOST = SCRATCH_BYTES,
	MEMORY_STEP_LEAST = 8 * 1024, /* read at once for a receiver that is slow */
};

void memory_open(struct lb *lb);
void memory_close(struct lb *lb);
/* The connection begins and ends to count. */
void memory_enter(struct front *f);
void memory_leave(struct front *f);
/* How many bytes may be read at once, or wait to be understood: within the bounds above. */
size_t memory_allowance(const struct front *f);
/* Of `want` bytes, those that are to be read at once for a receiver that has had long pieces: asks
 * its socket. */
size_t memory_step(const struct peer *to, size_t want);
/* Has a peer so much to send that nothing more may be read for it? */
bool memory_full(const struct peer *p);
/* After every callback in which buffers of f, its exchange or the endpoint's side may have
 * changed. */
void memory_settle(struct front *f);
void memory_tick(struct worker *w);

#endif
