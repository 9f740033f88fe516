/*
 * Detects server-first protocols. A port declared http may carry a protocol in which the server
 * greets (SMTP, FTP, MySQL); a client that waits for the greeting must not wait for us. If it is
 * not known yet what a group speaks and a new client has sent nothing for SILENCE_MS, one endpoint
 * is dialled and listened to:
 *
 *	the endpoint speaks ──► relayed; later and waiting clients of this group are relayed at once
 *	the client speaks ──► HTTP; the connection goes to the pool
 *	neither, for SPAN_HEAD ──► the connection is closed, the client may stay
 *
 * For that, each worker makes at most one connection a minute per group, one at a time, and none
 * once an endpoint has responded with HTTP. So idle clients cost nothing. On the worker's loop.
 */
#ifndef EDGEWAY_LB_PROXY_SERVER_FIRST_H
#define EDGEWAY_LB_PROXY_SERVER_FIRST_H

#include "lb/proxy/worker.h"

enum { SILENCE_MS = 40 };

/* A new connection to an http port. */
void server_first_open(struct downstream *f);
/* SPAN_SILENCE has expired. */
void server_first_over(struct downstream *f);
/* The client sends something, or draining begins: ends f->ex, which listens to an endpoint. */
void server_first_end(struct downstream *f);
/* The endpoint sends something, or its connection ends. */
void server_first_on_upstream(struct upstream_conn *b);
/* An endpoint of the group has responded with HTTP. */
void server_first_is_http(struct group *g);
/* The worker's timer for expiries of SPAN_SILENCE, finer than its tick. */
void server_first_tick(void *worker);

#endif
