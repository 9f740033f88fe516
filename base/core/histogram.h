/*
 * Counts of durations in buckets whose upper bounds double: the first one holds up to `first_us`,
 * each next one up to twice as much, the last one everything above. Plain numbers; any loop.
 *
 *	took[histogram_bucket(us, 128, N)]++;
 *	median_us = histogram_percentile_us(took, N, 128, 50);
 */
#ifndef EDGEWAY_BASE_CORE_HISTOGRAM_H
#define EDGEWAY_BASE_CORE_HISTOGRAM_H

#include <stdint.h>

unsigned histogram_bucket(uint64_t us, uint64_t first_us, unsigned n);
/* The duration that `percent` of the samples do not exceed, interpolated within its bucket; for the
 * last bucket its lower bound. 0: there are no samples. */
uint64_t histogram_percentile_us(
	const uint64_t *took, unsigned n, uint64_t first_us, unsigned percent);

#endif
