/*
 * The budget for memory held for clients. Two resources (base/core/fair_share), each shared by all
 * workers: our own buffers (responses not read by the client, requests that are incomplete or wait
 * behind another, bodies), and the kernel's buffers of the same connections. A client may hold as
 * much as it leaves to all others.
 *
 * A connection's buffers shrink with its client's remaining share (memory_allowance): no more than
 * that is read from the other side, whose kernel then holds it back. Of a long transfer no more is
 * read than the receiver's socket has room for (memory_step), so a slow reader holds little even if
 * memory is plentiful. If a client still exceeds its share, the client that holds most loses
 * connections: first those that hold something and have made no progress for a second, then idle
 * ones; and, only if the whole budget is used up, any of its connections.
 *
 * Limits: lb.memory, or else what the control group or the machine has (memory_open). On the
 * worker's loop except memory_open and memory_close.
 *
 *	n = peer_read(&f->peer, w->scratch, memory_allowance(f));
 *	...
 *	memory_settle(f);	// last in the callback: f may be closed now
 */
#ifndef EDGEWAY_LB_PROXY_MEMORY_H
#define EDGEWAY_LB_PROXY_MEMORY_H

#include "lb/proxy/worker.h"

enum {
	/* for each connection and direction, however little is left */
	MEMORY_ALLOWANCE_LEAST = 4096,
	MEMORY_ALLOWANCE_MOST = SCRATCH_BYTES,
	MEMORY_STEP_LEAST = 8 * 1024, /* least read at once for a slow receiver */
};

void memory_open(struct lb *lb);
void memory_close(struct lb *lb);
/* Begins and ends counting the connection. */
void memory_enter(struct downstream *f);
void memory_leave(struct downstream *f);
/* How many bytes may be read at once, or be buffered unparsed: within the bounds above. */
size_t memory_allowance(const struct downstream *f);
/* How far a body of HTTP/2 may be ahead of its receiver: `most`, or less if the share is small. */
size_t memory_window(const struct downstream *f, size_t most);
/* How many of `want` bytes to read at once for a receiver of a long transfer: asks its socket. */
size_t memory_step(const struct peer *to, size_t want);
/* Returns whether a peer has so much to send that nothing more may be read for it. */
bool memory_full(const struct peer *p);
/* Call after every callback in which buffers of f, its exchange or the endpoint's connection may
 * have changed. */
void memory_settle(struct downstream *f);
/* At every tick. Returns when to call it again. */
uint64_t memory_tick(struct worker *w);

#endif
