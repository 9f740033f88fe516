/*
 * Decides when the queries of a socket are let gather between two reads. Most of a query's cost is
 * in waking up for it and in waking up its client; where they come by tens of thousands a second,
 * a pause of a tenth of a millisecond lets many share that.
 *
 *	at once ──► gathering	BATCHING_BUSY_PER_MS and more in a window
 *	gathering ──► at once	less than half of that, or fewer than three quarters of what came
 *				before: clients that wait for each answer before they ask again ask
 *				less when answers take longer. The next try is then put off, ever longer.
 *
 * Pure: the clock is the caller's.
 *
 *	gathering = batching_note(&p, now_ms, n);	// n came since the last call
 */
#ifndef EDGEWAY_DNS_FRONT_BATCHING_H
#define EDGEWAY_DNS_FRONT_BATCHING_H

#include "base/core/util.h"

enum {
	BATCHING_BUSY_PER_MS = 20,
	BATCHING_WINDOW_MS = 20,
	BATCHING_PUT_OFF_MIN_MS = 50,
	BATCHING_PUT_OFF_MAX_MS = 1000,
};

struct batching { /* all zero to begin with */
	bool gathering;
	uint64_t since_ms; /* start of the window in which */
	unsigned n; /* so many came */
	unsigned best; /* rate before, or the best one since, we began to gather */
	uint64_t began_ms;
	uint64_t not_before_ms;
	uint64_t put_off_ms;
};

bool batching_note(struct batching *p, uint64_t now_ms, unsigned n);

#endif
