/*
 * One upstream as one worker knows it: its DNS client, its health and its counters, and the pulse
 * that keeps the health true: a question that a server can answer by itself (NS of the root, no
 * recursion wanted). It goes out when the upstream is new, when something is open and nothing was
 * heard for 300 ms, every 2 s to one that is not known to be alive, and else every 30 s. So a dead
 * one is told from one that waits for others, and that before a client has to find it out. On the
 * worker's loop only.
 *
 *	upstream_new(&u, loop, &addr, mark, count);	// NULL when no DNS client can be made
 *	upstream_ask(u, UPSTREAM_UDP, query, len, on_answer, me);
 *	next_ms = upstream_beat(u);	// from a timer; again after next_ms
 *	upstream_free(&u);	// what is open ends with -ECANCELED first
 */
#ifndef EDGEWAY_DNS_FORWARD_UPSTREAM_H
#define EDGEWAY_DNS_FORWARD_UPSTREAM_H

#include <stdatomic.h>

#include "base/net/resolve.h"
#include "dns/forward/health.h"

enum upstream_way { UPSTREAM_UDP, UPSTREAM_TCP };

enum upstream_state { UPSTREAM_UNKNOWN, UPSTREAM_ALIVE, UPSTREAM_DEAD };

enum { UPSTREAM_BEAT_MS = 300 };

/* Written by the worker, read by anyone. */
struct upstream_count {
	_Atomic uint64_t key; /* upstream_key of the address, 0: free */
	_Atomic uint64_t queries;
	_Atomic uint64_t failures; /* SERVFAIL, REFUSED and the like, and what could not be sent */
	_Atomic uint64_t timeouts;
	_Atomic uint64_t latency_us; /* moving average */
	_Atomic uint64_t state; /* enum upstream_state */
};

struct upstream {
	struct loop *loop;
	uint32_t mark;
	struct addr addr;
	struct resolve *resolve;
	struct resolve *tcp; /* made when it is first needed */
	uint64_t no_tcp_until_ms; /* it did not answer by TCP; 0: nobody has tried */
	struct health health;
	struct upstream_count *count;
	unsigned open; /* queries of clients; the owner of their answers counts */
	uint64_t heard_ms, pulse_ms; /* when it was last heard and sent a pulse; 0: never */
};

/* Never 0. */
uint64_t upstream_key(const struct addr *a);
bool upstream_is(const struct upstream *u, const struct addr *a);

int upstream_new(struct upstream **u, struct loop *loop, const struct addr *addr, uint32_t mark,
	struct upstream_count *count);
void upstream_free(struct upstream **u);
/* By UDP, a truncated answer again by TCP; or by TCP alone, in one try, after upstream_has_tcp. */
void upstream_ask(struct upstream *u, enum upstream_way way, const uint8_t *query, size_t len,
	resolve_answer_fn *fn, void *arg);
/* False for some time after upstream_no_tcp: its TCP did not answer. */
bool upstream_has_tcp(struct upstream *u);
void upstream_no_tcp(struct upstream *u);
/* What became of a query that was sent at start_ms. `good`: the rcode is one to hand on. */
void upstream_heard(struct upstream *u, uint64_t start_ms, bool good);
void upstream_failed(struct upstream *u, int status);
/* Sends a pulse if it is time. Returns in how many ms to look again. */
uint64_t upstream_beat(struct upstream *u);

#endif
