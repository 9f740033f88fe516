/*
 * edgewayctl doctor: everything that can be wrong on a node, with the remedy; also if the daemon
 * does not answer. The daemon's own findings are in its state; the rest is checked on the machine
 * (ctl_doctor_machine.h).
 */
#ifndef EDGEWAY_SRC_CTL_CTL_DOCTOR_H
#define EDGEWAY_SRC_CTL_CTL_DOCTOR_H

#include "src/common/ctl_answer.h"

struct doctor_ask {
	const char *socket; /* of the daemon */
	const char *silent; /* why it did not answer */
	int error; /* the same as a positive errno; 0: it answered something else */
};

/* `answer`: the daemon's state; if NULL, ask->silent says why there is none. Returns 1 if something
 * is bad, else 0. */
int ctl_doctor(
	const struct tree_node *answer, const struct doctor_ask *ask, enum ctl_format format);

#endif
