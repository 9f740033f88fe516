/*
 * Does something end again and again? Counts ends within the last FLAPPING_WINDOW_MS, so that a
 * fault that lasts for a moment only, over and over, is told as long as it recurs. Plain data,
 * zeroed at first; the caller supplies the clock.
 *
 *	flapping_note(&f, now_ms, "the connection was reset");
 *	if (flapping_count(&f, now_ms) >= FLAPPING_LEAST)
 *		tell f.why;
 */
#ifndef EDGEWAY_BASE_CORE_FLAPPING_H
#define EDGEWAY_BASE_CORE_FLAPPING_H

#include <stdint.h>

enum {
	FLAPPING_WINDOW_MS = 5 * 60 * 1000,
	FLAPPING_LEAST = 4, /* ends in the window that are worth telling */
	FLAPPING_MOST = 100, /* that are counted */
	FLAPPING_WHY_MAX = 160,
};

struct flapping {
	uint64_t at_ms[FLAPPING_MOST]; /* a ring */
	uint64_t n; /* since the start */
	char why[FLAPPING_WHY_MAX]; /* of the last one */
};

void flapping_note(struct flapping *f, uint64_t now_ms, const char *why);
/* Ends in the window, at most FLAPPING_MOST. */
unsigned flapping_count(const struct flapping *f, uint64_t now_ms);

#endif
