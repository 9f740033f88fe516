/*
 * Connections that have not authenticated yet, of all listeners of a daemon: a bounded number of
 * places, shared by address (base/core/fair_share). Who comes when its client has its share takes
 * the place of that client's oldest, once that has been here for PREAUTH_LEAST_MS; else it is
 * refused. When others have taken all places, the oldest of the client that has most goes. So
 * whoever only opens connections keeps nobody else out.
 *
 * What they ask for that costs much, as the answer to a ClientHello, is rationed as well: one such
 * step in a turn of the loop, of one client after another, however many connections each has (a
 * connection's second step comes with its first). So those that have authenticated wait for one
 * handshake at most, and a newcomer for one of each other client. One loop's.
 *
 *	struct guest { struct preauth_conn place; ... };
 *
 *	g->place = (struct preauth_conn){.drop = on_dropped, .arg = g};
 *	if (!preauth_enter(p, &g->place, &from, now_ms))
 *		refuse;
 *	preauth_step(&g->place, on_step, g);	// on_step(g) comes in one of the loop's next turns
 *	...
 *	preauth_leave(&g->place);	// it is known now, or has ended
 */
#ifndef EDGEWAY_BASE_CORE_PREAUTH_H
#define EDGEWAY_BASE_CORE_PREAUTH_H

#include <sys/queue.h>

#include "base/core/fair_share.h"
#include "base/core/loop.h"
#include "base/core/metric.h"

enum { PREAUTH_LEAST_MS = 1000 };

struct preauth;

/* Part of its owner, which sets `drop` and `arg` before it enters. */
struct preauth_conn {
	TAILQ_ENTRY(preauth_conn) link;
	struct preauth *of; /* NULL: it has no place */
	void (*drop)(void *arg); /* to be ended at once; its place is given back already */
	void *arg;
	uint64_t since_ms;
	uint16_t slot;
	TAILQ_ENTRY(preauth_conn) waits; /* for its step */
	loop_fn *step; /* NULL: it wants none */
	void *step_arg;
	uint64_t round; /* whose step comes in an earlier one comes first */
	uint8_t n_steps; /* that it had, as far as 2 */
	bool kept; /* it waits for its second, in the round of its first */
};

/* seed: clients must not know it. */
struct preauth *preauth_new(struct loop *loop, uint64_t places, uint64_t seed);
/* Nobody may have a place any more. */
void preauth_free(struct preauth **p);
/* False: refused. `drop` of others may be called from within. p NULL: everybody has room. */
bool preauth_enter(
	struct preauth *p, struct preauth_conn *c, const struct addr *from, uint64_t now_ms);
/* Nothing happens when it has no place. A step that it waits for does not come. */
void preauth_leave(struct preauth_conn *c);
static inline bool
preauth_has_place(const struct preauth_conn *c)
{
	return c->of != NULL;
}
/* `step` comes when it is its turn, never from within this call. One at a time. False: it has no
 * place, and need not wait. */
bool preauth_step(struct preauth_conn *c, loop_fn *step, void *arg);
/* It does not come. */
void preauth_cancel(struct preauth_conn *c);
/* Where a connection comes from: `from`, an address as text with perhaps a word and a colon in
 * front; NULL: the socket's other end. */
struct addr preauth_from(int fd, const char *from);
uint64_t preauth_waiting(const struct preauth *p);
void preauth_metrics(const struct preauth *p, struct metrics *m);
/* {"waiting","places","refused","dropped","steps"}; steps: how many wait for one */
void preauth_state(const struct preauth *p, struct buf *out);

#endif
