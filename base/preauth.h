/*
 * Connections that have not authenticated yet, of all listeners of a daemon: a bounded number of places, shared by address
 * (base/fair_share). Who comes when its client has its share takes the place of that client's oldest, once that has been here
 * for PREAUTH_LEAST_MS; else it is refused. When others have taken all places, the oldest of the client that has most goes. So
 * whoever only opens connections keeps nobody else out. One loop's.
 *
 *	struct guest { struct preauth_conn place; ... };
 *
 *	g->place = (struct preauth_conn){.drop = on_dropped, .arg = g};
 *	if (!preauth_enter(p, &g->place, &from, now_ms))
 *		refuse;
 *	...
 *	preauth_leave(&g->place);	// it is known now, or has ended
 */
#ifndef EDGEWAY_BASE_PREAUTH_H
#define EDGEWAY_BASE_PREAUTH_H

#include <sys/queue.h>

#include "base/fair_share.h"
#include "base/metric.h"

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
};

/* seed: clients must not know it. */
struct preauth *preauth_new(uint64_t places, uint64_t seed);
/* Nobody may have a place any more. */
void preauth_free(struct preauth **p);
/* False: refused. `drop` of others may be called from within. p NULL: everybody has room. */
bool preauth_enter(
	struct preauth *p, struct preauth_conn *c, const struct addr *from, uint64_t now_ms);
/* Nothing happens when it has no place. */
void preauth_leave(struct preauth_conn *c);
/* Where a connection comes from: `from`, an address as text with perhaps a word and a colon in front; NULL: the socket's other end. */
struct addr preauth_from(int fd, const char *from);
uint64_t preauth_waiting(const struct preauth *p);
void preauth_metrics(const struct preauth *p, struct metrics *m);
/* {"waiting","places","refused","dropped"} */
void preauth_state(const struct preauth *p, struct buf *out);

#endif
