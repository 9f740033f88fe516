#include "base/core/hash.h"

#include <xxhash.h>

uint64_t
hash64(const void *data, size_t len, uint64_t seed)
{
	return XXH64(data, len, seed);
}

uint64_t
hash64_nocase(const char *text, size_t len, uint64_t seed)
{
	char low[256] = {0};
	uint64_t h = seed;

	do {
		size_t n = MIN(len, sizeof low);

		for (size_t i = 0; i < n; i++) {
			char c = text[i];
			low[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
		}
		h = XXH64(low, n, h);
		text += n;
		len -= n;
	} while (len > 0);
	return h;
}
