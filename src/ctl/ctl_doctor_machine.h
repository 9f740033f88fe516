/*
 * The part of edgewayctl doctor that checks the machine itself: the pods' bridge, ports, MTU, the
 * kernel, the clock, and the mesh as pods and the host see it. For the last it sends a query to the
 * agent's DNS and opens one connection to a service. Changes nothing.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_DOCTOR_MACHINE_H
#define EDGEWAY_SRC_CTL_CTL_DOCTOR_MACHINE_H

#include "src/ctl/ctl_findings.h"

/* state: the agent's; NULL: it does not answer. */
void doctor_machine(struct findings *f, const struct tree_node *state, const char *socket);
/* meta: from the agent's state; NULL: no hub's clock is known. */
void doctor_clock(struct findings *f, const struct tree_node *meta);

#endif
