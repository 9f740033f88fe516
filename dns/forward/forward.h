/*
 * Sends queries to the upstreams and brings the first good answer back. One per worker, used on its
 * loop only. The first upstream in order is asked; the next one 60 ms later, or at once when one
 * says SERVFAIL, REFUSED, NOTIMP or FORMERR or cannot be reached. An upstream that others had to
 * stand in for several times running goes to the end of the order and is probed with a real query
 * now and then.
 *
 * After 1.8 s the question is over unless one that was asked is known to be alive
 * (dns/forward/upstream): that one is waited for, up to 4.5 s (stub resolvers give up at 5). What
 * it says later still is told to whoever keeps answers.
 *
 * Each query goes out with the letters of its name in random case (0x20). An answer that does not
 * bring them back is asked for once more by TCP, as Knot Resolver does it: so a forger gains
 * nothing by it, and what comes tells whether the upstream folds, which is then asked in lower
 * case. Of an upstream without TCP it is asked in lower case by UDP, which costs a forger another
 * id and port.
 *
 *	forward_new(&f, loop, mark, counters);
 *	forward_use(f, upstreams, n);	// again when they change: what is open is asked anew
 *	forward_ask(f, query, len, on_answer, me);
 *	forward_free(&f);	// open ones end with len 0
 */
#ifndef EDGEWAY_DNS_FORWARD_FORWARD_H
#define EDGEWAY_DNS_FORWARD_FORWARD_H

#include "base/core/loop.h"
#include "base/core/sock.h"
#include "dns/forward/upstream.h"

enum {
	FORWARD_UPSTREAMS_MAX = 8,
	FORWARD_OPEN_MAX = 2048,
	FORWARD_BUCKETS =
		14, /* as of base/core/histogram.h, the first one up to FORWARD_FIRST_US */
	FORWARD_FIRST_US = 1000,
	FORWARD_LOOPS = 8, /* the last questions of dns/forward/loop_probe that came to us */
};

struct forward;

/* Written by the worker, read by anyone. */
struct forward_counters {
	_Atomic uint64_t asked; /* queries given to us */
	_Atomic uint64_t failed; /* ended without an answer */
	_Atomic uint64_t full; /* refused: too many open */
	_Atomic uint64_t nobody; /* refused: no upstream */
	_Atomic uint64_t seconds; /* times that another upstream had to be asked */
	_Atomic uint64_t folded; /* answers that did not keep the case of the question */
	/* and those of them that were not the upstream's, as it says by TCP */
	_Atomic uint64_t forged;
	_Atomic uint64_t late; /* good answers after the question had ended without one */
	_Atomic uint64_t open;
	_Atomic uint64_t took
		/* questions by their time to the end, with or without an answer */
		[FORWARD_BUCKETS];
	_Atomic uint64_t took_ms; /* sum */
	_Atomic uint64_t loops[FORWARD_LOOPS]; /* marks, at [mark % FORWARD_LOOPS] */
	struct upstream_count up[FORWARD_UPSTREAMS_MAX]; /* in no order */
};

/* The answer is borrowed for the call; len 0: no upstream gave one. Never called before forward_ask
 * has returned. */
typedef void forward_fn(void *arg, const uint8_t *answer, size_t len);
/* `query`: as it was given to forward_ask but for the case of its name. Both borrowed. */
typedef void forward_late_fn(
	void *arg, const uint8_t *query, size_t query_len, const uint8_t *answer, size_t len);

void forward_new(
	struct forward **f, struct loop *loop, uint32_t mark, struct forward_counters *counters);
void forward_free(struct forward **f);
/* Good answers that come after their question had ended without one. */
void forward_on_late(struct forward *f, forward_late_fn *fn, void *arg);
/* False: the same as before. */
bool forward_use(struct forward *f, const struct addr *upstreams, size_t n);
/* False when an answer is not to be hoped for now: no upstream, all of them dead, too much open. */
bool forward_hopeful(const struct forward *f);
/* A query as dns_forward_build makes it. 0, -EBUSY when too many are open, -ENETUNREACH without
 * upstreams, -ELOOP when it is a question of our own that came back. */
int forward_ask(struct forward *f, const uint8_t *query, size_t len, forward_fn *fn, void *arg);

#endif
