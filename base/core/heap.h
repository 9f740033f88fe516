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

/* Bytes in use: at the last call, and the most since memory was last returned. */
struct heap_peak {
	uint64_t used, most;
};

/* Returns free memory (malloc_trim(3)) when the peak is well above what is in use now and in-use
 * memory has not dropped much since the last call. Otherwise the call only reads malloc's
 * statistics. */
void heap_give_back(struct heap_peak *p);

#endif
