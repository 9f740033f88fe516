/*
 * One upstream as one worker sees it: its DNS client, its health and its counters. A pulse keeps
 * the health up to date: a query that a server can answer by itself (NS of the root, recursion not
 * desired). It is sent when the upstream is new, when a query is open and the upstream has been
 * silent for 300 ms, every 2 s if it is not known to be alive, and otherwise every 30 s. So a dead
 * upstream is told apart from one that waits for other servers, before a client has to find out. On
 * the worker's loop only.
 *
 *	upstream_new(&u, loop, &addr, mark, count);	// NULL when no DNS client can be made
 *	upstream_ask(u, UPSTREAM_UDP, query, len, on_answer, me);
 *	next_ms = upstream_beat(u);	// from a timer; again after next_ms
 *	upstream_free(&u);	// open queries end with -ECANCELED first
 */
#ifndef EDGEWAY_DNS_FORWARD_UPSTREAM_H
#define EDGEWAY_DNS_FORWARD_UPSTREAM_H

#include <stdatomic.h>

#include "base/net/resolve.h"
#include "dns/forward/health.h"

enum upstream_way { UPSTREAM_UDP, UPSTREAM_TCP };

enum upstream_state { UPSTREAM_UNKNOWN, UPSTREAM_ALIVE, UPSTREAM_DEAD };

enum {
	UPSTREAM_BEAT_MS = 300,
	UPSTREAM_GARBAGE = 16, /* beyond the rcodes of a header: the answer cannot be read */
};

/* Written by the worker, read by anyone. */
struct upstream_count {
	_Atomic uint64_t key; /* upstream_key of the address, 0: free */
	_Atomic uint64_t queries;
	_Atomic uint64_t failures; /* SERVFAIL, REFUSED and the like, and send errors */
	_Atomic uint64_t timeouts;
	_Atomic uint64_t latency_us; /* moving average */
	_Atomic uint64_t state; /* enum upstream_state */
	_Atomic uint64_t garbage; /* 1: dead, but it sends what answers no query */
	/* Errors of one rcode in a row, see upstream_judge; 0: none. One bit for each hash of the
	 * names that were asked for; when the first and the last one came. */
	_Atomic uint64_t errors, errors_rcode, errors_names, errors_since_ms, errors_ms;
	_Atomic uint64_t good_ms; /* last answer without an error */
};

struct upstream {
	struct loop *loop;
	uint32_t mark;
	struct addr addr;
	struct resolve *resolve;
	struct resolve *tcp; /* created when first needed */
	/* not asked by TCP until then, since it did not answer; 0: not tried yet */
	uint64_t no_tcp_until_ms;
	struct health health;
	struct upstream_count *count;
	unsigned open; /* queries of clients; counted by the caller of upstream_ask */
	/* when it last answered and when the last pulse was sent; 0: never */
	uint64_t heard_ms, pulse_ms;
};

/* Never 0. */
uint64_t upstream_key(const struct addr *a);
bool upstream_is(const struct upstream *u, const struct addr *a);

int upstream_new(struct upstream **u, struct loop *loop, const struct addr *addr, uint32_t mark,
	struct upstream_count *count);
void upstream_free(struct upstream **u);
/* By UDP, repeated by TCP if the answer is truncated; or by TCP alone, one try, after
 * upstream_has_tcp returned true. */
void upstream_ask(struct upstream *u, enum upstream_way way, const uint8_t *query, size_t len,
	resolve_answer_fn *fn, void *arg);
/* False for some time after upstream_no_tcp, which records that its TCP did not answer. */
bool upstream_has_tcp(struct upstream *u);
void upstream_no_tcp(struct upstream *u);
/* The outcome of a query sent at start_ms. `good`: the rcode is one to pass on to the client. */
void upstream_heard(struct upstream *u, uint64_t start_ms, bool good);
/* Counts answers with an error since the last good one, for who looks whether this upstream serves
 * us at all. Of errors only those to queries for A count: some servers fail all for AAAA, HTTPS or
 * PTR, and serve well nevertheless. Pulses do not count: many servers refuse them (no RD), others
 * answer them without reaching anybody. `rcode` may be UPSTREAM_GARBAGE. */
void upstream_judge(struct upstream *u, const uint8_t *query, size_t len, unsigned rcode);
void upstream_failed(struct upstream *u, int status);
/* Sends a pulse if one is due. Returns after how many ms to call it again. */
uint64_t upstream_beat(struct upstream *u);

#endif
