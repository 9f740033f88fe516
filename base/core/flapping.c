#include "base/core/flapping.h"

#include <stdio.h>

void
flapping_note(struct flapping *f, uint64_t now_ms, const char *why)
{
	f->at_ms[f->n++ % FLAPPING_MOST] = now_ms;
	snprintf(f->why, sizeof f->why, "%s", why);
}

unsigned
flapping_count(const struct flapping *f, uint64_t now_ms)
{
	unsigned count = 0;

	for (uint64_t i = 0; i < FLAPPING_MOST && i < f->n; i++)
		count += now_ms - f->at_ms[i] < FLAPPING_WINDOW_MS;
	return count;
}
