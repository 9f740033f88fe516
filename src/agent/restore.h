/*
 * --restore: undoes by hand what a killed agent left on the host: resolv.conf, the nftables table,
 * the route. Refused while an agent runs, as that agent restores everything itself when it stops.
 * Each step is tried even if another one failed. Returns the exit status.
 */
#ifndef EDGEWAY_SRC_AGENT_RESTORE_H
#define EDGEWAY_SRC_AGENT_RESTORE_H

#include "src/agent/agent_options.h"

int restore(const struct agent_options *options);

#endif
