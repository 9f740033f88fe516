/*
 * How old what this node serves may be: the time since it was in step with its hub. Known across
 * restarts by a note of the database (written when the connection is lost, at the end, and every 10
 * minutes in step, so that after a power cut the age is at most that much too large), counted by
 * the monotonic clock while the agent runs, so that a wall clock that jumps changes nothing. Says
 * so in the log at 10 minutes, an hour, a day, and every week. Loop 0 only.
 *
 *	age = staleness_new(&config);			// looks every few seconds whether the node is in step still
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
	int64_t stored_s; /* the note's time, seconds since 1970; 0: there is none */
	bool (*in_step)(void *arg); /* is the node in step with its hub now? */
	void (*note)(void *arg, int64_t now_s); /* to be stored */
	void *arg;
};

struct staleness *staleness_new(const struct staleness_config *config);
void staleness_free(struct staleness **age);
/* The node is in step from now on: need not wait for the next look. */
void staleness_look(struct staleness *age);
/* Seconds; 0 in step, -1 while nobody knows (never in step, or only with an agent that did not note
 * it). Where the clock said less at the start than the note does, as one without a battery, it
 * counts from the start until the clock is right. */
int64_t staleness_seconds(struct staleness *age);
void staleness_metrics(struct staleness *age, struct metrics *out);
/* JSON object. */
void staleness_state(struct staleness *age, struct buf *out);

#endif
