/*
 * Returns memory to the system after a peak. free() keeps free pages for later allocations while
 * anything behind them is still in use, so a process that used much memory for a moment would seem
 * to use it for ever.
 *
 *	struct heap_peak peak = {0};
 *	heap_give_back(&peak); // from time to time, on a thread that carries no traffic
 */
#ifndef EDGEWAY_BASE_CORE_HEAP_H
#define EDGEWAY_BASE_CORE_HEAP_H

#include <stdint.h>

/* Free bytes whose pages were returned before: malloc counts them further on. */
struct heap_peak {
	uint64_t given;
};

/* Returns free memory (malloc_trim(3)) when much more is free than was returned before, whenever
 * the peak was. Otherwise the call only reads malloc's statistics. */
void heap_give_back(struct heap_peak *p);

#endif
