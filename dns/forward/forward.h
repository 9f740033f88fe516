/*
 * Sends queries to the upstreams and returns the first good answer. One per worker, used on its
 * loop only. The first upstream in order is asked; the next one 60 ms later, or at once if one
 * answers SERVFAIL, REFUSED, NOTIMP or FORMERR or cannot be reached. An upstream that was slower
 * than another several times in a row moves to the end of the order and is probed with a real query
 * now and then.
 *
 * After 1.8 s the question ends, unless one of the upstreams asked is known to be alive
 * (dns/forward/upstream): then we wait for it up to 4.5 s (stub resolvers give up at 5). An answer
 * that comes even later is passed to the cache (forward_on_late).
 *
 * Each query is sent with the letters of its name in random case (0x20). If an answer does not keep
 * the case, the question is repeated by TCP, as Knot Resolver does. So a forger gains nothing, and
 * the TCP answer shows whether the upstream folds the case; if it does, it is asked in lower case
 * from then on. An upstream without TCP is asked in lower case by UDP; a forger then has to guess
 * another id and port.
 *
 *	forward_new(&f, loop, mark, counters);
 *	forward_use(f, upstreams, n);	// again when they change: open questions are asked anew
 *	forward_ask(f, query, len, on_answer, me);
 *	forward_free(&f);	// open questions end with len 0
 */
#ifndef EDGEWAY_DNS_FORWARD_FORWARD_H
#define EDGEWAY_DNS_FORWARD_FORWARD_H

#include "base/core/loop.h"
#include "base/core/sock.h"
#include "dns/forward/upstream.h"

enum {
	FORWARD_UPSTREAMS_MAX = 8,
	FORWARD_OPEN_MAX = 2048,
	/* as in base/core/histogram.h; the first bucket ends at FORWARD_FIRST_US */
	FORWARD_BUCKETS = 14,
	FORWARD_FIRST_US = 1000,
	FORWARD_LOOPS = 8, /* the last probes of dns/forward/loop_probe that came back to us */
};

struct forward;

/* Written by the worker, read by anyone. */
struct forward_counters {
	_Atomic uint64_t failed; /* ended without an answer */
	_Atomic uint64_t full; /* refused: too many open */
	_Atomic uint64_t nobody; /* refused: no upstream */
	_Atomic uint64_t case_mismatches; /* answers that did not keep the case of the question */
	/* those of them that the upstream did not send, as its answer by TCP showed */
	_Atomic uint64_t forged;
	_Atomic uint64_t open;
	_Atomic uint64_t took[FORWARD_BUCKETS]; /* questions by duration, answered or not */
	_Atomic uint64_t took_ms; /* sum */
	_Atomic uint64_t loops[FORWARD_LOOPS]; /* marks, at [mark % FORWARD_LOOPS] */
	struct upstream_count up[FORWARD_UPSTREAMS_MAX]; /* unordered */
};

/* The answer is borrowed for the call; len 0: no upstream answered. Never called before forward_ask
 * has returned. */
typedef void forward_fn(void *arg, const uint8_t *answer, size_t len);
/* `query`: as passed to forward_ask, except for the case of its name. Both are borrowed for the
 * call. */
typedef void forward_late_fn(
	void *arg, const uint8_t *query, size_t query_len, const uint8_t *answer, size_t len);

void forward_new(
	struct forward **f, struct loop *loop, uint32_t mark, struct forward_counters *counters);
void forward_free(struct forward **f);
/* Sets the callback for good answers that come after their question has ended without one. */
void forward_on_late(struct forward *f, forward_late_fn *fn, void *arg);
/* False: they are the same as before. */
bool forward_use(struct forward *f, const struct addr *upstreams, size_t n);
/* False if no answer can be expected now: no upstream, all of them dead, or too many open
 * questions. */
bool forward_hopeful(const struct forward *f);
/* query: made by dns_forward_build. Returns 0, -EBUSY when too many are open, -ENETUNREACH without
 * upstreams, -ELOOP when it is one of our own loop probes coming back. */
int forward_ask(struct forward *f, const uint8_t *query, size_t len, forward_fn *fn, void *arg);

#endif
