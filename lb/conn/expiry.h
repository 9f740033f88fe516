/*
 * Deadlines of thousands of connections with one timer: one ring for each span, new entries at its
 * end, so that each ring is ordered by deadline and setting a deadline costs a few stores. Coarse:
 * the worker checks at its ticks, at most every EXPIRY_TICK_MS; without a deadline it sleeps. A
 * struct expiry is in at most one ring.
 */
#ifndef EDGEWAY_LB_CONN_EXPIRY_H
#define EDGEWAY_LB_CONN_EXPIRY_H

#include "base/core/loop.h"
#include "lb/conn/list.h"

enum { EXPIRY_TICK_MS = 50 };

enum span {
	SPAN_DIAL, /* an upstream connection is being made: time to check its progress */
	SPAN_ACK, /* an endpoint has a request: time to check whether it acknowledged the bytes */
	SPAN_PROBE, /* an endpoint is being probed or checked */
	SPAN_HEAD, /* a request head has begun and must be complete */
	SPAN_IDLE, /* a client between requests, or one that neither sends nor reads */
	SPAN_POOL, /* an idle upstream connection */
	SPAN_LINGER, /* we have responded and closed, and wait for the client to see it */
	/* a relay without traffic, or a request that the endpoint is still processing */
	SPAN_TUNNEL,
	SPAN_SILENCE, /* a new client of an http port has sent nothing yet */
	/* an endpoint has a request of a service without a response deadline of its own */
	SPAN_ANSWER,
	SPAN_OWN, /* the service's own deadline is to be checked: exchange_due() */
	SPAN_COUNT,
};

struct expiry {
	struct node node;
	uint64_t since_ms;
	loop_fn *fn;
	void *arg;
};

struct expiries {
	struct node rings[SPAN_COUNT];
	uint64_t span_ms[SPAN_COUNT];
};

void expiries_init(struct expiries *all);
void expiry_init(struct expiry *e, loop_fn *fn, void *arg);
/* Starts or restarts it, possibly with another span. */
void expiry_set(struct expiries *all, struct expiry *e, enum span span, uint64_t now_ms);
void expiry_cancel(struct expiry *e);
/* Calls fn of every expiry that is due; each is out of its ring by then. Returns true if there was
 * one. */
bool expiries_run(struct expiries *all, uint64_t now_ms);
/* When the next one is due; UINT64_MAX: there is none. */
uint64_t expiries_next(const struct expiries *all);

/* Treats every expiry of this span as due. */
void expiries_flush(struct expiries *all, enum span span);

#endif
