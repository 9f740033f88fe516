/*
 * Functions that show the daemons' answers to a person, on stdout. Each takes the answer and the
 * command's free argument (NULL: none), and returns the exit status.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_SHOW_H
#define EDGEWAY_SRC_CTL_CTL_SHOW_H

#include "base/conf/tree.h"

typedef int ctl_show_fn(const struct tree_node *answer, const char *argument);

ctl_show_fn ctl_show_status, ctl_show_services, ctl_show_endpoints, ctl_show_health,
	ctl_show_nodeports, ctl_show_upstreams, ctl_show_tokens, ctl_show_nodes, ctl_show_ca,
	ctl_show_hubs, ctl_show_tunnels, ctl_show_flows, ctl_show_peers, ctl_show_log,
	ctl_show_events, ctl_show_streams, ctl_show_resolve, ctl_show_trace, ctl_show_bundle,
	ctl_show_access;

#endif
