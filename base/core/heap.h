/*
 * Memory goes back to the system after a peak. free() keeps pages for the next one who asks,
 * wherever something else still stands behind them, so that who held much for a moment would seem
 * to hold it for good.
 *
 *	struct heap_peak peak = {0};
 *	heap_give_back(&peak); // from time to time, on a thread that carries no traffic
 */
#ifndef EDGEWAY_BASE_CORE_HEAP_H
#define EDGEWAY_BASE_CORE_HEAP_H

#include <stdint.h>

/* Bytes in use: when last looked at, and the most since memory was given back. */
struct heap_peak {
	uint64_t used, most;
};

/* Gives back what is free (malloc_trim(3)), when that is much and no more was freed since the last
 * call; else it costs a look at the heap's lists. */
void heap_give_back(struct heap_peak *p);

#endif
