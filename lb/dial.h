/*
 * Finds an upstream for an exchange: picks an endpoint, takes an idle connection of the pool or
 * makes one, and goes on to another endpoint when that fails, at most TRIES_MAX. Nothing has been
 * sent by then, so this is always safe. The outcome is returned, or told later by
 * exchange_connected / relay_connected and exchange_dial_failed / relay_dial_failed.
 */
#ifndef EDGEWAY_LB_DIAL_H
#define EDGEWAY_LB_DIAL_H

#include "lb/private.h"

enum dial {
	DIAL_READY, /* ex->back can be written to */
	DIAL_WAIT, /* under way */
	DIAL_FAILED, /* nothing left to try */
};

enum dial dial_next(struct exchange *ex, bool may_reuse);
/* Events of a connection under way. */
void dial_on_event(struct back *b);
void dial_on_timeout(struct back *b);
/* The endpoint failed ex: remembered for the policy, and not asked again by ex. */
void dial_blame(struct exchange *ex, struct target *t, enum target_fault fault);

#endif
