/*
 * The mesh as a pod sees it: edgewayctl's doctor enters the network namespace of a container behind
 * an interface of the pods, queries a name there and connects to a service. So it finds what cannot
 * be seen from the host: rules of other programs that run first, firewalls, another name server. A
 * child process does it, so that this process stays in its namespace. Needs root, and access to the
 * containers' processes.
 *
 *	n = pods_find(tree_path(state, "iptables.interfaces"), pods, ARRAY_LEN(pods), &networks);
 *	pod_try(&pods[0], &question, &view);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_PODS_H
#define EDGEWAY_SRC_CTL_CTL_PODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf/tree.h"
#include "base/core/sock.h"

enum { POD_HERE = 0, POD_WHO = 48, POD_SERVERS_MAX = 3, POD_PATIENCE_MS = 2000 };

struct pod {
	int pid; /* a process of it; POD_HERE: our own network */
	char who[POD_WHO]; /* "nginx (pid 17)" */
	struct in_addr servers[POD_SERVERS_MAX]; /* IPv4 name servers in its resolv.conf */
	size_t n_servers;
};

/* Whether the interface matches one of the globs. */
bool pods_interface(const struct tree_node *interfaces, const char *name);
/* Finds at most `most` pods, one for each network, among those whose processes are visible;
 * *networks: how many networks are attached to bridges that match `interfaces`, or are at the other
 * end of a pair of interfaces that does and to which a route leads. */
size_t pods_find(
	const struct tree_node *interfaces, struct pod *pods, size_t most, size_t *networks);

struct pod_question {
	struct addr dns; /* port 0: no query */
	struct addr service; /* port 0: no connection */
};

struct pod_view {
	struct in_addr address; /* of the pod */
	int dns_error, service_error; /* 0, or errno */
	unsigned mtu; /* of its route to the service, 0: unknown */
};

/* 0, or -errno: its network cannot be entered. Waits up to POD_PATIENCE_MS for each of the two. */
int pod_try(const struct pod *pod, const struct pod_question *question, struct pod_view *view);

#endif
