/*
 * What is known of one upstream: pure, the caller gives the clock. Two things are told apart. One
 * that others had to stand in for several times running has lost: it is asked last and probed now
 * and then. One that nothing was heard of for longer than it ever takes is dead: nobody waits for
 * it. A slow one is neither.
 *
 * How long it ever takes is told by its pulse, the time of a question that it can answer by itself:
 * the answer to another may have to come from far away. Where there is none, by its answers.
 */
#ifndef EDGEWAY_DNS_FORWARD_HEALTH_H
#define EDGEWAY_DNS_FORWARD_HEALTH_H

#include "base/core/util.h"

enum {
	HEALTH_LOST_MAX = 4, /* answers in a row that others gave */
	HEALTH_FOLDS_MAX = 8, /* answers in a row that did not keep the case of the question */
	HEALTH_PROBE_MS = 2000,
	HEALTH_DEAD_MS = 1200, /* silence that says all of one that is quick or was never heard */
	HEALTH_DEAD_SLOW_MS = 4200, /* and of the slowest; else twice what it takes */
};

struct health {
	unsigned lost;
	unsigned folds;
	uint64_t probe_at_ms;
	uint64_t silent_since_ms; /* first query since it was last heard; 0: none */
	uint64_t slow_ms; /* the slowest of the last answers; 0: none yet */
	uint64_t pulse_ms; /* the same of the pulses */
	bool unreachable;
};

void health_asked(struct health *h, uint64_t now_ms);
/* Any answer is a sign of life, whatever it says and however late. */
void health_heard(struct health *h, uint64_t took_ms);
void health_pulse(struct health *h, uint64_t took_ms);
/* The host says that nobody listens there. */
void health_unreachable(struct health *h);
/* Both false: never heard, and not asked for long enough. */
bool health_alive(const struct health *h, uint64_t now_ms);
bool health_dead(const struct health *h, uint64_t now_ms);

/* Another's answer came first. True when that made it lose. */
bool health_beaten(struct health *h, uint64_t now_ms);
bool health_lost(const struct health *h);
/* Whether one that lost is to be probed now; the next time is set. */
bool health_probe(struct health *h, uint64_t now_ms);

#endif
