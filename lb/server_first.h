/*
 * Who speaks first? A port that is called http may carry a protocol in which the server greets
 * (SMTP, FTP, MySQL); a client that waits for the greeting must not wait for us. Where a group has
 * not yet shown what it speaks and a new client has said nothing for SILENCE_MS, one endpoint is
 * dialled and listened to:
 *
 *	the endpoint speaks ──► relayed; later clients of this group are relayed at once, waiting ones too
 *	the client speaks ──► HTTP; the connection goes to the pool
 *	neither, for SPAN_HEAD ──► the connection is closed, the client may stay
 *
 * At most one connection a group and worker is made for that, and one a minute; none once an
 * endpoint has answered HTTP. So idle clients cost nothing. All of this on the worker's loop.
 */
#ifndef EDGEWAY_LB_SERVER_FIRST_H
#define EDGEWAY_LB_SERVER_FIRST_H

#include "lb/private.h"

enum { SILENCE_MS = 40 };

/* A new connection to an http port. */
void server_first_open(struct front *f);
/* SPAN_SILENCE is over. */
void server_first_over(struct front *f);
/* The client moves, or the drain begins: f->ex, which listens to an endpoint, ends. */
void server_first_end(struct front *f);
/* The endpoint moves. */
void server_first_on_back(struct back *b);
/* An endpoint of the group has answered HTTP. */
void server_first_is_http(struct group *g);
/* The worker's timer: expiries of SPAN_SILENCE, finer than its tick. */
void server_first_tick(void *worker);

#endif
