/*
 * edgewayctl doctor: everything that a node can get wrong, with the remedy; also where the daemon
 * does not answer. What the daemon finds by itself stands in its state; the rest is looked up on
 * the machine (ctl_doctor_machine.h).
 */
#ifndef EDGEWAY_SRC_CTL_CTL_DOCTOR_H
#define EDGEWAY_SRC_CTL_CTL_DOCTOR_H

#include "src/common/ctl_answer.h"

struct doctor_ask {
	const char *socket; /* of the daemon */
	const char *silent; /* why it did not answer */
	int error; /* that as errno, positive; 0: it said something else */
};

/* `answer`: the daemon's state, or NULL and ask->silent says why there is none. 1 when something is
 * bad, else 0. */
int ctl_doctor(
	const struct tree_node *answer, const struct doctor_ask *ask, enum ctl_format format);

#endif
