/*
 * Reduces the agent's root privileges to what it needs: CAP_NET_ADMIN (nftables, conntrack, routes,
 * marks, bridge ports, sysctls of its network) and CAP_NET_BIND_SERVICE (port 53). IP_FREEBIND
 * needs none. Nor does replacing resolv.conf, if the file and its folder belong to root; if that
 * file, the data folder or a certificate belongs to another user, CAP_DAC_OVERRIDE, CAP_CHOWN and
 * CAP_FOWNER are kept too. Call before the first thread is started.
 */
#ifndef EDGEWAY_SRC_AGENT_RIGHTS_H
#define EDGEWAY_SRC_AGENT_RIGHTS_H

#include "src/agent/agent_options.h"

/* Logs what was kept (debug), and why that is more than usual or could not be reduced. */
void rights_reduce(const struct agent_options *options);

#endif
