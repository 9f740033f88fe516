/*
 * Decides when to let the queries of a socket gather between two reads. Most of a query's cost is
 * waking up for it and waking up its client; when tens of thousands arrive per second, a pause of a
 * tenth of a millisecond lets many share that cost.
 *
 *	at once ──► gathering	BATCHING_BUSY_PER_MS and more in a window, unless we come to read
 *				so seldom that they are many each time
 *	gathering ──► at once	less than half of that, or an eighth less than before, or
 *				than is usual since: clients that wait for each answer before they
 *				ask again ask less when answers take longer. The next try
 *				is then put off, ever longer unless this one was proven.
 *
 * Rates are moving averages: other programs on the CPUs make that of a single window fall by half,
 * whether we gather or not.
 *
 * Pure: the caller supplies the clock.
 *
 *	gathering = batching_note(&p, now_ms, n);	// n came since the last call
 */
#ifndef EDGEWAY_DNS_FRONT_BATCHING_H
#define EDGEWAY_DNS_FRONT_BATCHING_H

#include "base/core/util.h"

enum {
	BATCHING_BUSY_PER_MS = 20,
	BATCHING_MANY = 12, /* queries a read */
	BATCHING_WINDOW_MS = 20,
	BATCHING_PROVEN_MS = 200, /* what gathering itself costs has shown by then */
	BATCHING_PUT_OFF_MIN_MS = 50,
	BATCHING_PUT_OFF_MAX_MS = 1000,
};

struct batching { /* starts all zero */
	bool gathering;
	uint64_t since_ms; /* start of the window */
	unsigned n, reads; /* queries in the window so far, and calls */
	unsigned rate; /* the average of the last windows; 0: none yet */
	unsigned usual; /* the rate before we began to gather, which follows slowly */
	uint64_t began_ms;
	uint64_t not_before_ms;
	uint64_t put_off_ms;
};

bool batching_note(struct batching *p, uint64_t now_ms, unsigned n);

#endif
