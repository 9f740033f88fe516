/*
 * How old the data that this node serves may be: the time since it was in step with its hub. A note
 * in the database preserves it across restarts; it is written when the connection is lost, at the
 * end, and every 10 minutes in step, so that after a power cut the age is too large by at most that
 * much. While the agent runs the monotonic clock counts, so that a jump of the wall clock changes
 * nothing. Logs a warning at 10 minutes, an hour, a day, and every week. Loop 0 only.
 *
 *	age = staleness_new(&config);			// checks in_step every few seconds
 *	staleness_seconds(age);
 *	staleness_free(&age);				// before the apply that it writes to
 */
#ifndef EDGEWAY_META_CLIENT_STALENESS_H
#define EDGEWAY_META_CLIENT_STALENESS_H

#include "base/core/buf.h"
#include "base/core/loop.h"
#include "base/core/metric.h"

struct staleness;

struct staleness_config {
	struct loop *loop;
	int64_t stored_s; /* the note's time, seconds since 1970; 0: no note */
	bool (*in_step)(void *arg); /* is the node in step with its hub now? */
	void (*note)(void *arg, int64_t now_s); /* stores the note */
	void *arg;
};

struct staleness *staleness_new(const struct staleness_config *config);
void staleness_free(struct staleness **age);
/* The node has just come in step: do not wait for the next check. */
void staleness_look(struct staleness *age);
/* Seconds; 0 in step, -1 while unknown (never in step, or only with an agent that wrote no note).
 * If the clock was behind the note at the start, for instance without a battery, it counts from the
 * start until the clock is right. */
int64_t staleness_seconds(struct staleness *age);
void staleness_metrics(struct staleness *age, struct metrics *out);
/* JSON object. */
void staleness_state(struct staleness *age, struct buf *out);

#endif
