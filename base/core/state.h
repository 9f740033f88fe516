/*
 * State machines as tables: which state may follow which. doc/states/NAME.dot draws the same, and
 * tests/lint compares the two. A step that the table does not have is a bug of ours: it is logged
 * and made, since a daemon had better go on.
 *
 *	static const char *const names[] = {[OPEN] = "open", [CLOSED] = "closed"};
 *	static const uint32_t next[] = {[OPEN] = STATE_TO(CLOSED), [CLOSED] = 0};
 *	static const struct state_machine machine = {"door", "dns", names, next};
 *
 *	d->state = state_go(&machine, d->state, CLOSED);
 */
#ifndef EDGEWAY_BASE_CORE_STATE_H
#define EDGEWAY_BASE_CORE_STATE_H

#include <stdint.h>

#define STATE_TO(s) (UINT32_C(1) << (s)) /* at most 32 states */

struct state_machine {
	const char *name; /* of the .dot */
	const char *part; /* of the log */
	const char *const *names; /* of the states, as there */
	const uint32_t *next; /* for each state the set of those that may follow, itself included */
};

/* Returns `to`; logs the step (debug), or that it is not in the table (error). */
unsigned state_go(const struct state_machine *m, unsigned from, unsigned to);

#endif
