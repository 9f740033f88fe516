/*
 * What the agent may do as root, reduced to what it needs: CAP_NET_ADMIN (nftables, conntrack,
 * routes, marks, bridge ports, sysctls of its network) and CAP_NET_BIND_SERVICE (port 53).
 * IP_FREEBIND needs nothing. Replacing resolv.conf needs nothing either, as long as it and its
 * folder are root's; where that file, the data folder or a certificate is another user's,
 * CAP_DAC_OVERRIDE, CAP_CHOWN and CAP_FOWNER are kept too. Before the first thread is started.
 */
#ifndef EDGEWAY_SRC_AGENT_RIGHTS_H
#define EDGEWAY_SRC_AGENT_RIGHTS_H

#include "src/agent/agent_options.h"

/* The log tells what was kept (debug), and why it is more than usual or could not be less. */
void rights_reduce(const struct agent_options *options);

#endif
