#include "base/core/histogram.h"

#include "base/core/util.h"

unsigned
histogram_bucket(uint64_t us, uint64_t first_us, unsigned n)
{
	uint64_t units = us == 0 ? 0 : (us - 1) / first_us;
	unsigned bits = units == 0 ? 0 : 64u - (unsigned)__builtin_clzll(units);

	return MIN(bits, n - 1);
}

uint64_t
histogram_percentile_us(const uint64_t *took, unsigned n, uint64_t first_us, unsigned percent)
{
	uint64_t total = 0, below = 0, wanted;

	for (unsigned i = 0; i < n; i++)
		total += took[i];
	wanted = (total * percent + 99) / 100;
	for (unsigned i = 0; i < n && total > 0; i++) {
		uint64_t to = first_us << i, from = i == 0 ? 0 : to / 2;

		if (below + took[i] >= wanted)
			return i == n - 1 ? from : from + (to - from) * (wanted - below) / took[i];
		below += took[i];
	}
	return 0;
}
