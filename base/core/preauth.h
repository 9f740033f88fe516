/*
 * Limits connections that have not authenticated yet, over all listeners of a daemon: a bounded
 * number of places, counted by client address (base/core/fair_share). A client may use all that
 * nobody else wants, since thousands of nodes may share an address. When all are in use, a new
 * connection takes the place of the newest one of the client with the most, if that has at least
 * two more; otherwise that of its own client's oldest one if that is at least PREAUTH_LEAST_MS old;
 * otherwise it is refused. So a client that only opens connections keeps nobody else out.
 *
 * Expensive work, such as answering a ClientHello, is rationed as well: one such step per turn of
 * the loop, round-robin over clients, however many connections each has (a connection's second step
 * comes before all first ones). So authenticated traffic waits for at most one handshake step,
 * and a newcomer for one step of each other client. Nobody waits for a step longer than peers are
 * patient: preauth_turns_away tells by the measured pace (base/core/step_pace) who would, and one
 * that waits for its step, here or at a branch, is not replaced by a newer one of its client: of
 * those who are let in, all finish. Bound to one loop.
 *
 *	struct guest { struct preauth_conn place; ... };
 *
 *	g->place = (struct preauth_conn){.drop = on_dropped, .arg = g};
 *	if (!preauth_enter(p, &g->place, &from, now_ms))
 *		refuse;
 *	preauth_step(&g->place, on_step, g);	// on_step(g) comes in one of the loop's next turns
 *	...
 *	preauth_leave(&g->place);	// authenticated, or ended
 */
#ifndef EDGEWAY_BASE_CORE_PREAUTH_H
#define EDGEWAY_BASE_CORE_PREAUTH_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/core/fair_share.h"
#include "base/core/loop.h"
#include "base/core/metric.h"

/* PREAUTH_STEP_MS: agents give up after 10 s, and the rest of the handshake takes time as well. */
enum { PREAUTH_LEAST_MS = 1000, PREAUTH_STEP_MS = 6000 };

struct preauth;

/* Embedded in the owner, which sets `drop` and `arg` before preauth_enter. */
struct preauth_conn {
	TAILQ_ENTRY(preauth_conn) link;
	struct preauth *of; /* NULL: it holds no slot */
	void (*drop)(void *arg); /* the connection must end at once; its slot is already released */
	void *arg;
	uint64_t since_ms;
	uint16_t slot;
	TAILQ_ENTRY(preauth_conn) held; /* those of its client */
	TAILQ_ENTRY(preauth_conn) waits; /* queue for its step */
	loop_fn *step; /* NULL: none is requested */
	void *step_arg;
	uint8_t n_steps; /* steps run so far, counted up to 2 */
	atomic_bool waits_for_us; /* for a step or, at a branch, for its owner; not for its peer */
	/* The same connection at a preauth_branch, of which only waits_for_us is read. NULL:
	 * there is none. */
	const struct preauth_conn *branch;
};

/* seed: secret from clients. */
struct preauth *preauth_new(struct loop *loop, uint64_t places, uint64_t seed);
/* For the steps of connections that another loop's thread works on: as many places, and the steps
 * count at p. `loop` does not run yet, or it is this thread's. */
struct preauth *preauth_branch(const struct preauth *p, struct loop *loop);
/* No connection may hold a slot any more. */
void preauth_free(struct preauth **p);
/* False: refused. May call `drop` of other connections. p NULL: no limit. */
bool preauth_enter(
	struct preauth *p, struct preauth_conn *c, const struct addr *from, uint64_t now_ms);
/* Does nothing when it holds no slot. Cancels a step that is waiting. */
void preauth_leave(struct preauth_conn *c);
static inline bool
preauth_has_place(const struct preauth_conn *c)
{
	return c->of != NULL;
}
/* Calls `step` when its turn comes, never from within this call. One at a time. False: it holds no
 * slot and need not wait. */
bool preauth_step(struct preauth_conn *c, loop_fn *step, void *arg);
/* Would its first step come too late for its peer? Then it had better not begin: the caller ends it
 * at once; counted here. */
bool preauth_turns_away(struct preauth_conn *c);
/* Cancels the waiting step. */
void preauth_cancel(struct preauth_conn *c);
/* A connection's client address: `from`, an address as text, optionally with a word and a colon in
 * front; NULL: the socket's peer. */
struct addr preauth_from(int fd, const char *from);
uint64_t preauth_waiting(const struct preauth *p);
void preauth_metrics(const struct preauth *p, struct metrics *m);
/* {"waiting","places","refused","dropped","steps","step_us","turned_away"}; steps: connections that
 * wait for one; step_us: the measured time of one */
void preauth_state(const struct preauth *p, struct buf *out);

#endif
