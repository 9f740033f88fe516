/*
 * edgewayctl tap: requests and relayed connections as they go through the agent's proxy, a line
 * each, until interrupted. The agent is asked every half second for what came since; it forgets the
 * look soon after nobody asks (lb/tap.h).
 */
#ifndef EDGEWAY_SRC_CTL_CTL_TAP_H
#define EDGEWAY_SRC_CTL_CTL_TAP_H

#include "src/common/ctl_answer.h"

/* service: NAMESPACE/NAME, NULL: all. -o json: an object on each line. The exit status. */
int ctl_tap(const char *socket, const char *service, enum ctl_format format);

#endif
