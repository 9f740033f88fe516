#include "base/core/step_pace.h"

#include "base/core/util.h"

/* Until the first sample: half of what a handshake with client certificates costs on a slow core,
 * so that a hub that has just started believes in itself. */
enum { STEP_PACE_FIRST_US = 1000 };
/* A sample counts at most so many times the pace before: one stall, for instance of a machine that
 * is moved, would else turn newcomers away that are too few to be measured anew. */
enum { STEP_PACE_JUMP = 8 };

void
step_pace_init(struct step_pace *p)
{
	*p = (struct step_pace){.step_us = STEP_PACE_FIRST_US};
}

void
step_pace_done(struct step_pace *p, uint64_t now_ms, uint64_t n_waiting)
{
	uint64_t sample;

	p->done++;
	if (p->since_ms == 0) {
		p->done = 0;
		p->since_ms = now_ms;
	} else if (p->done > 0 && now_ms >= p->since_ms + STEP_PACE_SAMPLE_MS) {
		sample = (now_ms - p->since_ms) * 1000 / p->done;
		sample = MIN(sample, STEP_PACE_JUMP * MAX(p->step_us, (uint64_t)1));
		p->step_us = (p->step_us * 7 + sample) / 8;
		p->done = 0;
		p->since_ms = now_ms;
	}
	/* With nothing waiting, the time until the next step says nothing about the pace. */
	if (n_waiting == 0)
		p->since_ms = 0;
}

uint64_t
step_pace_wait_ms(const struct step_pace *p, uint64_t n_before)
{
	return n_before * p->step_us / 1000;
}
