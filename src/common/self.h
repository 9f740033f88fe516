/*
 * What both daemons report about themselves on their admin socket: the duration of their loops'
 * turns, the resources of the process, and recent events.
 *
 *	self_metrics(&m, loop, workers);
 *	{"GET", "/debug/events", self_events, false},
 */
#ifndef EDGEWAY_SRC_COMMON_SELF_H
#define EDGEWAY_SRC_COMMON_SELF_H

#include "base/core/metric.h"
#include "base/http/admin.h"
#include "src/common/workers.h"

/* loop: the main one. workers: NULL: there are none. */
void self_metrics(struct metrics *m, struct loop *loop, const struct workers *workers);
/* Why the admin ports (either may be NULL) are not served, for edgewayctl: {"trouble"}. */
void self_admin_state(const struct admin *all, const struct admin *metrics, struct buf *out);
/* {"events":[{"time","level","part","event"}]}, oldest first; filtered by `part` and `level` of the
 * query. */
admin_fn self_events;

#endif
