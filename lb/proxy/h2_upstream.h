/*
 * HTTP/2 sessions with endpoints (prior knowledge, RFC 9113 section 3.3), per worker and endpoint:
 * many streams share one. A session takes streams up to the endpoint's limit, then another one is
 * opened. Requests that come while it is dialled wait for that dial, and look for an endpoint anew
 * when it is over or takes long. An endpoint that answers in HTTP/1 is remembered for a while.
 *
 * A session that ends, that its endpoint sends away (GOAWAY), or in which many streams were reset,
 * takes no further streams; those that the endpoint has not processed go elsewhere. One that
 * acknowledges nothing is left like an HTTP/1 connection (dial.h). Without streams it ends after
 * SPAN_POOL, or at once if the endpoint has many such.
 *
 * What a session holds is charged to the clients of its streams, by their number. A client's place
 * in lb->connections has a descriptor for one endpoint (listener.c), so a session beyond the
 * endpoint's first one takes a place more: that of the client that dials it, or whose stream is the
 * first in it later. On the worker's loop.
 */
#ifndef EDGEWAY_LB_PROXY_H2_UPSTREAM_H
#define EDGEWAY_LB_PROXY_H2_UPSTREAM_H

#include "lb/proxy/dial.h"
#include "lb/proxy/h2_link.h"

struct h2_upstream {
	struct h2_link link;
	struct upstream_conn *conn;
	struct node node; /* in target->h2 */
	struct node streams;
	unsigned n_streams;
	unsigned resets; /* of streams that were open */
	uint64_t asked_ms; /* the last request */
	bool settled; /* its SETTINGS have come */
	bool heard; /* a byte has come */
	bool answered; /* a response has come: it has worked */
	bool retired; /* takes no further streams */
	bool watched; /* its conn's expiry is in SPAN_ACK */
};

/* Returns false: the exchange is to dial t. Else *result is DIAL_READY: ex->h2 has a session;
 * DIAL_WAIT: it waits for a dial of another one; DIAL_FAILED: t is not asked. Takes the in-flight
 * count of pick_next() unless DIAL_FAILED. */
bool h2_upstream_take(struct exchange *ex, struct target *t, enum dial *result);
/* There is no session with t, and none is dialled. */
static inline bool
h2_upstream_is_first(const struct target *t)
{
	return list_empty(&t->h2) && t->h2_dial == NULL;
}
/* Bytes that the session holds. */
size_t h2_upstream_held(const struct h2_upstream *u);
/* The endpoint speaks HTTP/1 alone, as far as is known for a while. */
void h2_upstream_is_http1(struct target *t, uint64_t now_ms);
/* A dial has begun for which others may wait; it is over, or takes long. */
void h2_upstream_dialling(struct target *t, struct upstream_conn *b);
void h2_upstream_dial_over(struct upstream_conn *b);
/* The connection is established, for its exchange or for none. */
void h2_upstream_adopt(struct upstream_conn *b);
/* Attaches the exchange that dialled it. */
void h2_upstream_join(struct h2_upstream *u, struct h2_stream *st);
/* Sends the request of st. Returns -errno: the session takes no streams. */
int h2_upstream_ask(struct h2_stream *st);
/* Something is to be sent: is it acknowledged? */
void h2_upstream_watch(struct h2_upstream *u);
/* The stream is not of the session any more; code: reset it, if it is still open. */
void h2_upstream_leave(struct h2_stream *st, uint32_t code);
/* Ends waiting for a dial. */
void h2_upstream_unwait(struct h2_stream *st);
void h2_upstream_on_event(struct upstream_conn *b, unsigned events);
void h2_upstream_on_time(struct upstream_conn *b);
/* The sessions with t take no further streams. */
void h2_upstream_retire(struct target *t);
/* b closes: its streams are lost. */
void h2_upstream_free(struct upstream_conn *b);
/* Requests whose dial is over look for an endpoint. */
void h2_upstream_wake(struct worker *w);

#endif
