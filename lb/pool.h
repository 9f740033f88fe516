/*
 * Upstream connections: made by dial.c, used by one exchange at a time, kept idle here in between,
 * per worker and endpoint, the youngest on top, for less time than servers keep theirs (SPAN_POOL).
 * Idle sockets are watched: a FIN, an error or a byte that nobody asked for ends them (RFC 9112
 * section 9.2).
 */
#ifndef EDGEWAY_LB_POOL_H
#define EDGEWAY_LB_POOL_H

#include "lb/private.h"

enum { POOL_IDLE_MAX = 256 }; /* per endpoint and worker */

/* Takes fd, and what pick_next() counted; belongs to ex from the start: in front of those that
 * are still connecting. */
struct back *back_new(struct worker *w, int fd, struct target *t, struct exchange *ex);
/* Ends it, wherever it is; with one that is still connecting all that its exchange dials. ex->back
 * is cleared. */
void back_close(struct back *b, bool reset);
/* Ends this one alone; the exchange's others stay. */
void back_drop(struct back *b, bool reset);
/* Its dial is answered, or will hardly be any more. */
void back_stale(struct back *b);
/* It serves its exchange: the others that were dialled go on without one. */
void back_won(struct back *b);
/* An idle connection to t for ex, which takes what pick_next() counted, or NULL. A dead one that
 * the loop has not seen yet is left out. */
struct back *pool_get(struct target *t, struct exchange *ex);
/* Gives it back after a whole answer, or when it connected too late; ex->back is cleared. */
void pool_put(struct back *b);
/* Closes all idle connections to t. */
void pool_clear(struct target *t);
/* The same, and those that are in use now are not kept afterwards. */
void pool_let_go(struct target *t);

#endif
