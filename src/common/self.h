/*
 * What both daemons tell of themselves on their admin socket: how long the turns of their loops
 * are, what the process costs, and what happened lately.
 *
 *	self_metrics(&m, loops, n);		// loops[0] is the main one, the others are workers
 *	{"GET", "/debug/events", self_events, false},
 */
#ifndef EDGEWAY_SRC_COMMON_SELF_H
#define EDGEWAY_SRC_COMMON_SELF_H

#include "base/core/metric.h"
#include "base/http/admin.h"

void self_metrics(struct metrics *m, struct loop *const *loops, size_t n);
/* What keeps the admin ports (either may be NULL) from being served, for edgewayctl:
 * {"trouble"}. */
void self_admin_state(const struct admin *all, const struct admin *metrics, struct buf *out);
/* {"events":[{"time","level","part","event"}]}, the oldest first; `part` and `level` of the query
 * choose. */
admin_fn self_events;

#endif
