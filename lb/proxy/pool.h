/*
 * Upstream connections: dial.c makes them, one exchange at a time uses them, and in between they
 * are kept idle here, per worker and endpoint, the youngest on top, for less time than servers keep
 * theirs (SPAN_POOL). Idle sockets are watched: a FIN, an error or an unexpected byte ends them
 * (RFC 9112 section 9.2).
 */
#ifndef EDGEWAY_LB_PROXY_POOL_H
#define EDGEWAY_LB_PROXY_POOL_H

#include "lb/proxy/worker.h"

enum { POOL_IDLE_MAX = 256 }; /* per endpoint and worker */

/* Takes fd, and the in-flight count of pick_next(). The connection belongs to ex from the start,
 * ahead of ex's other connecting ones. */
struct upstream_conn *upstream_conn_new(
	struct worker *w, int fd, struct target *t, struct exchange *ex);
/* The watch_fn of its socket. */
void upstream_conn_on_event(void *arg, int fd, unsigned events);
/* Closes it, whatever its state; if it is still connecting, also everything else that its exchange
 * dials. Clears ex->upstream. */
void upstream_conn_close(struct upstream_conn *b, bool reset);
/* Closes this connection alone; the exchange's others stay. */
void upstream_conn_drop(struct upstream_conn *b, bool reset);
/* Its dial has been answered, or is unlikely to be. */
void upstream_conn_stale(struct upstream_conn *b);
/* Its descriptor is of this client's share of connections from now on (NULL: of nobody's). */
void upstream_conn_place(struct upstream_conn *b, const struct downstream *f);
/* It serves its exchange: the rivals continue without one. */
void upstream_conn_won(struct upstream_conn *b);
/* The exchange has a session that others share: its dials go on without it. */
void upstream_conn_leave_dials(struct exchange *ex);
/* It belongs to no exchange any more, which keeps the in-flight count; returns whether that is
 * counted for the client (target_end). */
bool upstream_conn_release(struct upstream_conn *b);
/* Returns an idle connection to t for ex, which takes the in-flight count of pick_next(), or NULL.
 * Skips one that is dead or has said something of which the loop has not been told yet. */
struct upstream_conn *pool_get(struct target *t, struct exchange *ex);
/* Returns it to the pool after a complete response, or if it connected too late; clears
 * ex->upstream. */
void pool_put(struct upstream_conn *b);
/* Closes all idle connections to t. */
void pool_clear(struct target *t);
/* The same, and connections in use now are not kept afterwards. */
void pool_let_go(struct target *t);

#endif
