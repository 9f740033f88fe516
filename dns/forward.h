/*
 * Sends queries to the upstreams and brings the first good answer back. One per worker, used on its
 *loop only. The first upstream in order is asked; the next one 80 ms later, or at once when one
 *says SERVFAIL, REFUSED, NOTIMP or FORMERR or cannot be reached. An upstream that others had to
 *stand in for several times running goes to the end of the order and is probed with a real query
 *now and then. After 4 s nothing more is waited for (stub resolvers give up at 5), after 1.8 s if
 *all upstreams are known to be dead: nothing was heard of one for longer than it ever takes. A slow
 *one is waited for.
 *
 * Each query goes out with the letters of its name in random case (0x20); an answer that does not
 *bring them back is asked for once more in lower case, which costs a forger another id and port.
 *
 *	forward_new(&f, loop, mark);
 *	forward_use(f, upstreams, n);	// again when they change: what is open is asked anew
 *	forward_ask(f, query, len, on_answer, me);
 *	forward_free(&f);	// open ones end with len 0
 */
#ifndef EDGEWAY_DNS_FORWARD_H
#define EDGEWAY_DNS_FORWARD_H

#include <stdatomic.h>

#include "base/loop.h"
#include "base/sock.h"

enum { FORWARD_UPSTREAMS_MAX = 8, FORWARD_OPEN_MAX = 2048 };

struct forward;

/* Written by the worker, read by anyone. */
struct forward_counters {
	_Atomic uint64_t asked; /* queries given to us */
	_Atomic uint64_t failed; /* ended without an answer */
	_Atomic uint64_t refused; /* too many open, or no upstream */
	_Atomic uint64_t seconds; /* times that another upstream had to be asked */
	_Atomic uint64_t folded; /* answers that did not keep the case of the question */
	_Atomic uint64_t open;
};

/* The answer is borrowed for the call; len 0: no upstream gave one. Never called before forward_ask
 * has returned. */
typedef void forward_fn(void *arg, const uint8_t *answer, size_t len);

void forward_new(
	struct forward **f, struct loop *loop, uint32_t mark, struct forward_counters *counters);
void forward_free(struct forward **f);
/* False: the same as before. */
bool forward_use(struct forward *f, const struct addr *upstreams, size_t n);
/* False when an answer is not to be hoped for now: no upstream, all of them dead, too much open. */
bool forward_hopeful(const struct forward *f);
/* A query as dns_forward_build makes it. 0, -EBUSY when too many are open, -ENETUNREACH without
 * upstreams. */
int forward_ask(struct forward *f, const uint8_t *query, size_t len, forward_fn *fn, void *arg);

#endif
