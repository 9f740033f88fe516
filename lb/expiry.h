/*
 * Deadlines of thousands of connections with one timer: a ring for each span, new ones at the end,
 * so that each ring is in order of its deadlines and setting one costs a few stores. Coarse:
 * checked at every tick of the worker (EXPIRY_TICK_MS). One struct expiry is in one ring at most.
 */
#ifndef EDGEWAY_LB_EXPIRY_H
#define EDGEWAY_LB_EXPIRY_H

#include "base/core/loop.h"
#include "lb/list.h"

enum { EXPIRY_TICK_MS = 50 };

enum span {
	SPAN_DIAL, /* an upstream connection is being made: how is it going? */
	SPAN_ACK, /* an endpoint has a request: has it acknowledged the bytes? */
	SPAN_PROBE, /* an endpoint is being tried or checked */
	SPAN_HEAD, /* a request head has begun and must end */
	SPAN_IDLE, /* a client between requests, or one that neither sends nor reads */
	SPAN_POOL, /* an upstream connection without work */
	SPAN_LINGER, /* answered and closed by us, waiting for the client to see it */
	SPAN_TUNNEL, /* a relay without traffic, or a request whose answer the endpoint thinks over
		      */
	SPAN_SILENCE, /* a new client of an http port has said nothing yet */
	SPAN_ANSWER, /* an endpoint has a request of a service without a deadline of its own */
	SPAN_OWN, /* a service's own deadline is looked at again: exchange_due() */
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
/* Starts, or starts again, with another span perhaps. */
void expiry_set(struct expiries *all, struct expiry *e, enum span span, uint64_t now_ms);
void expiry_cancel(struct expiry *e);
/* Calls fn of all that are due; each is out of its ring by then. */
void expiries_run(struct expiries *all, uint64_t now_ms);

/* As if all of a span were due. */
void expiries_flush(struct expiries *all, enum span span);

#endif
