/*
 * The health of one upstream: pure, the caller supplies the clock. There are two separate states.
 * "Lost": other upstreams answered first several times in a row; it is asked last and probed now
 * and then. "Dead": it has been silent for longer than it ever takes to answer; nobody waits for
 * it. A slow upstream is neither.
 *
 * How long it ever takes is measured by its pulse: a query that it can answer by itself, while the
 * answer to another query may have to come from far away. Without a pulse its other answers are
 * used.
 */
#ifndef EDGEWAY_DNS_FORWARD_HEALTH_H
#define EDGEWAY_DNS_FORWARD_HEALTH_H

#include "base/core/util.h"

enum {
	HEALTH_LOST_MAX = 4, /* times in a row that another upstream answered first */
	HEALTH_FOLDS_MAX = 8, /* answers in a row that did not keep the case of the question */
	HEALTH_PROBE_MS = 2000,
	HEALTH_DEAD_MS = 1200, /* silence after which a quick or never heard upstream is dead */
	/* the same for the slowest; in between: twice the time it takes */
	HEALTH_DEAD_SLOW_MS = 4200,
};

struct health {
	unsigned lost;
	unsigned folds;
	uint64_t probe_at_ms;
	uint64_t silent_since_ms; /* first query since its last answer; 0: none */
	uint64_t slow_ms; /* time of the slowest recent answer; 0: none yet */
	uint64_t pulse_ms; /* the same for pulses */
	bool unreachable;
};

void health_asked(struct health *h, uint64_t now_ms);
/* Any answer is a sign of life, whatever its content and however late. */
void health_heard(struct health *h, uint64_t took_ms);
void health_pulse(struct health *h, uint64_t took_ms);
/* The host reported that no process listens there. */
void health_unreachable(struct health *h);
/* Both are false if it was never heard and has not been asked for long enough. */
bool health_alive(const struct health *h, uint64_t now_ms);
bool health_dead(const struct health *h, uint64_t now_ms);

/* Another upstream answered first. Returns true when that made this one lost. */
bool health_beaten(struct health *h, uint64_t now_ms);
bool health_lost(const struct health *h);
/* Whether a lost upstream is to be probed now; also sets the time of the next probe. */
bool health_probe(struct health *h, uint64_t now_ms);

#endif
