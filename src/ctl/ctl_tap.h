/*
 * edgewayctl tap: requests and relayed connections in the agent's proxy, one line each, until
 * interrupted. It polls the agent every half second for new ones; the agent ends the tap soon after
 * the last poll (lb/proxy/tap.h).
 */
#ifndef EDGEWAY_SRC_CTL_CTL_TAP_H
#define EDGEWAY_SRC_CTL_CTL_TAP_H

#include "src/common/ctl_answer.h"

/* service: NAMESPACE/NAME, NULL: all. With -o json, one object per line. Returns the exit
 * status. */
int ctl_tap(const char *socket, const char *service, enum ctl_format format);

#endif
