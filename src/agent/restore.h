/*
 * --restore: undoes by hand what an agent that was killed left on the host: resolv.conf, the
 * nftables table, the route. Refused while an agent runs: it does that itself when it stops. Each
 * step is tried, also when another one failed. Returns the exit status.
 */
#ifndef EDGEWAY_SRC_AGENT_RESTORE_H
#define EDGEWAY_SRC_AGENT_RESTORE_H

#include "src/agent/agent_options.h"

int restore(const struct agent_options *options);

#endif
