/*
 * Resolves the request of a stream on this node: which kind of target it is, and at which addresses
 * to dial it. Pure; it decides by what the node itself knows, whatever the hub says.
 *
 *	EDGE:10250		the node by its name: 127.0.0.1, then the node's own addresses
 *	192.0.2.7:22		an address of the node, or loopback: the node
 *	172.17.0.5:8080		an address on one of the node's bridges: a pod
 *	172.17.0.5:8080		with a service's name: an endpoint of that service that lives here
 *	172.17.0.1:2375		an address of the node is the node also with a service's name, whatever an EndpointSlice says of it,
 *				unless the endpoint is a pod of the host's network
 *	192.168.1.12:10250	with the name of a node beside this one, or "*": a machine that tunnel.reach names, or the
 *				endpoint of a service on one
 *
 *	status = dial_target_find(&ground, &(struct dial_target_request){.authority = text, .service = "", .meant = ""}, &target, &reason);
 */
#ifndef EDGEWAY_TUNNEL_NODE_DIAL_TARGET_H
#define EDGEWAY_TUNNEL_NODE_DIAL_TARGET_H

#include "base/os/addresses.h"
#include "model/snapshot.h"
#include "tunnel/node/reachable_nets.h"
#include "tunnel/node/tunnel_acl.h"

enum { DIAL_TARGET_ADDRS_MAX = 8, GROUND_MAX = 128 };

struct ground_net { /* an address of this machine and the network it belongs to */
	struct addr addr;
	unsigned bits;
	bool bridge; /* a pod bridge */
};

struct ground {
	const char *node;
	const struct snapshot *snapshot; /* NULL: none yet */
	const struct reachable_nets *vicinity; /* networks and nodes reachable from this node */
	const struct address_list *own; /* all addresses of this machine; NULL: not known */
	struct ground_net nets[GROUND_MAX];
	size_t n_nets;
};

struct dial_target {
	enum tunnel_acl_kind kind;
	struct addr addrs[DIAL_TARGET_ADDRS_MAX]; /* in this order */
	size_t n_addrs;
};

struct dial_target_request {
	const char *authority; /* host:port */
	const char *service; /* "namespace/name" or "" */
	const char *meant; /* another node, REACHABLE_NETS_ANY, or "": this node */
	bool udp; /* selects the UDP ports of a service; else the other ports */
};

/* 0; 400: no host:port; 403: another machine that tunnel.reach does not open; 404: not on this
 * node, with a static reason. */
unsigned dial_target_find(const struct ground *g, const struct dial_target_request *request,
	struct dial_target *to, const char **reason);
/* Keeps the addresses that may be dialled. 0, or 403 with a static reason and all of them. */
unsigned dial_target_permit(
	struct dial_target *t, const struct tunnel_acl *allow, const char **reason);

#endif
