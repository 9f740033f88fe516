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

struct heap_peak {
	/* the least that was held beyond what is in use, since memory was last returned */
	uint64_t left;
	unsigned rests; /* calls that look at nothing */
};

/* Returns free memory (malloc_trim(3)) when the process holds much more than it uses, whenever the
 * peak was. Otherwise the call only reads statistics of malloc and of the kernel. */
void heap_give_back(struct heap_peak *p);

#endif
