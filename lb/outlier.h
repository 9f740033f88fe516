/*
 * What follows when an endpoint has failed: it is remembered, and where that puts it out
 * (targets.h) it is counted, said with a remedy, told to the other workers (gossip.h), and its idle
 * connections are closed. Worker's loop.
 */
#ifndef EDGEWAY_LB_OUTLIER_H
#define EDGEWAY_LB_OUTLIER_H

#include "lb/private.h"

/* ex: whose request found it out, or NULL. */
void outlier_target(
	struct worker *w, struct target *t, enum target_fault fault, struct exchange *ex);

#endif
