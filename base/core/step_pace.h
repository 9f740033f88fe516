/*
 * How long a queue of expensive steps takes, by how fast steps were completed while some waited:
 * the time per step follows the last seconds, so that it holds on any machine and at any load.
 * Admission by it lets in as many as will be finished in time. Plain data, no clock.
 *
 *	step_pace_init(&pace);
 *	step_pace_done(&pace, now_ms, n_waiting);	// after each step
 *	if (step_pace_wait_ms(&pace, n_waiting) > limit)
 *		turn the newcomer away;
 */
#ifndef EDGEWAY_BASE_CORE_STEP_PACE_H
#define EDGEWAY_BASE_CORE_STEP_PACE_H

#include <stdint.h>

enum { STEP_PACE_SAMPLE_MS = 100 };

struct step_pace {
	uint64_t step_us; /* smoothed */
	uint64_t since_ms, done; /* the sample under way; since_ms 0: none */
};

void step_pace_init(struct step_pace *p);
/* A step was completed; n_waiting: steps that still wait. */
void step_pace_done(struct step_pace *p, uint64_t now_ms, uint64_t n_waiting);
/* When a step with so many before it will be completed. */
uint64_t step_pace_wait_ms(const struct step_pace *p, uint64_t n_before);

#endif
