/*
 * The agent's changes to the kernel, through netlink only (libnftnl, libmnl). The table `ip
 * edgeway`, and with mesh.subnet6 `ip6 edgeway`, sends TCP for the fake range to the listener, UDP
 * (and TCP if requested) straight to the endpoints, and pods' queries for other name servers to our
 * DNS. A route lets host processes reach the range; the listen port is reserved. Also reports when
 * the mesh interface appears, changes its address or disappears, and makes one where there is none.
 * Loop 0 only. The public header of iptables/; the hub's table is in divert.h.
 */
#ifndef EDGEWAY_IPTABLES_IPTABLES_H
#define EDGEWAY_IPTABLES_IPTABLES_H

#include "base/core/address_list.h"
#include "base/core/loop.h"
#include "base/core/metric.h"
#include "iptables/host/bridge_port.h"
#include "iptables/host/multipath.h"
#include "iptables/host/own_interface.h"
#include "iptables/maps/divert.h"
#include "model/fake6.h"
#include "model/pod_ranges.h"
#include "model/snapshot.h"

struct iptables;

/* Whether we serve ClusterIPs. AUTO: unless another program does, and except those of
 * default/kubernetes and kube-system/kube-dns. Always that of default/kubernetes where an endpoint
 * of it is VIA_TUNNEL. */
enum iptables_catch { IPTABLES_CATCH_AUTO, IPTABLES_CATCH_ALWAYS, IPTABLES_CATCH_NEVER };

/* Whether the mesh's address may be on an interface of our own (iptables/host/own_interface.h).
 * INSTEAD: where config.interface does not exist, or has no address, for OWN_INTERFACE_MS; until it
 * has one again. */
enum iptables_own { IPTABLES_OWN_NEVER, IPTABLES_OWN_INSTEAD, IPTABLES_OWN_ALWAYS };
enum { OWN_INTERFACE_MS = 10000 };

struct iptables_config {
	struct loop *loop;
	const char *interface; /* of the pods: address and route */
	const char *const *interfaces; /* more of them, globs; NULL-terminated, may be NULL */
	enum iptables_own own;
	uint32_t own_address; /* of our own interface, host byte order */
	bool succeeds; /* another agent serves until we do: what it has stays */
	/* it had the address last: INSTEAD makes it at once, as it does with `succeeds` */
	bool own_used;
	uint32_t subnet, mask; /* host byte order */
	struct fake6 subnet6; /* bits 0: none; else our own interface has its address */
	uint16_t port; /* of the listener; it is reserved */
	uint16_t dns_port; /* of our DNS, at the same address */
	uint32_t mark; /* connections with it are not translated */
	bool kernel; /* mesh.datapath: kernel */
	enum iptables_catch catch;
	enum iptables_catch node_ports; /* the same for what is called from outside */
	/* Returns a port of ours at the IPv4 table's address that relays UDP for a service port
	 * whose endpoints the kernel cannot send to. 0: such UDP is refused. NULL: the same as
	 * always 0. Called within iptables_use, iptables_relays and iptables_install, and from
	 * timers. */
	uint16_t (*relay)(void *arg, const struct service *s, const struct service_port *p);
	void *relay_arg;
	/* Called with iptables_open's arg when iptables_trouble6 has changed; calls nothing else of
	 * this header. */
	loop_fn *changed6;
};

/* Address of the mesh interface, host byte order; 0: none (no interface, down, or no IPv4). */
typedef void iptables_address_fn(void *arg, uint32_t address);

/* Begins to follow the interface by rtnetlink; `fn` is called once soon and then at every change.
 * Reserves the port. */
int iptables_open(struct iptables **ipt, const struct iptables_config *config,
	iptables_address_fn *fn, void *arg, struct err *err);
/* The proxy listens on this port instead of config.port; takes effect at the next
 * iptables_install. */
void iptables_use_port(struct iptables *ipt, uint16_t port);
/* In one transaction replaces our table (also one left by an earlier run), unless it is already as
 * wanted; then sets the route. */
int iptables_install(struct iptables *ipt, uint32_t address, struct err *err);
/* For ten seconds from now, pods' queries to port 53 of these upstreams (IPv4 as ::ffff:a.b.c.d) go
 * to our DNS; call it again while DNS answers, and at once when the upstreams change. n 0: stop.
 * Fails if the table is not installed. */
int iptables_capture(
	struct iptables *ipt, const struct in6_addr *upstreams, size_t n, struct err *err);
/* Why IPv6 is not served although mesh.subnet6 is set; "" it is, or is not wanted. It is tried
 * again every two seconds, where the kernel has no table for IPv6 every minute. */
const char *iptables_trouble6(const struct iptables *ipt);
/* Takes from this snapshot (and references it) what the kernel carries by itself and which
 * ClusterIPs are served. Also allowed before the table is installed. */
void iptables_use(struct iptables *ipt, const struct snapshot *snapshot);
/* The ranges of pods' addresses that no two nodes share (copied): TCP to those that this machine
 * has no route to goes to the listener. Also allowed before the table is installed. */
void iptables_pod_ranges(struct iptables *ipt, const struct pod_ranges *ranges);
/* This node's addresses: NodePorts are served there. Also allowed before the table is installed. */
void iptables_addresses(struct iptables *ipt, const struct address_list *own);
/* Services that are called from outside and cannot be served as they ask, for example because a
 * process of the node holds their port: "ns/name","ns/name"; returns how many there are. */
size_t iptables_troubled(struct iptables *ipt, struct buf *out);
/* The results of config.relay have changed. */
void iptables_relays(struct iptables *ipt);
/* The listener is about to close: new connections to it are refused; what the kernel carries goes
 * on, and existing connections keep their translation. Until the next install. */
int iptables_drain(struct iptables *ipt, struct err *err);
/* Removes table, route and our own interface; succeeds if there are none. */
int iptables_remove(struct iptables *ipt, struct err *err);
/* How the kernel translated a flow from this port to this address. Ports in host byte order. */
struct iptables_flow {
	bool udp; /* else TCP */
	uint16_t from_port;
	struct in6_addr to; /* IPv4 as ::ffff:a.b.c.d */
	uint16_t to_port;
	struct in6_addr server; /* result: the real server; replied: whether it has answered */
	uint16_t server_port;
	bool replied;
};
/* 1: found; 0: there is no such flow; -errno. Reads the kernel's table up to the flow, or all of it
 * for 0: meant for operators. */
int iptables_flow(struct iptables_flow *flow, struct err *err);
/* A TCP connection to this address that nobody has answered in the last minutes, from none of the
 * node's own addresses: 1 and where from, 0: there is none, -errno. Costs as iptables_flow: call it
 * once a minute at most. */
int iptables_unanswered(const struct in6_addr *to, const struct address_list *own,
	struct in6_addr *from, struct err *err);
/* Are NodePorts served by this node? */
bool iptables_serves_external(const struct iptables *ipt);
bool iptables_installed(const struct iptables *ipt);
void iptables_metrics(struct iptables *ipt, struct metrics *m);
/* JSON object. others: also lists other programs' chains and rules that may affect our packets;
 * takes longer the more rules there are. */
void iptables_state(struct iptables *ipt, struct buf *out, bool others);
/* Restores what iptables_inherit() is about. */
void iptables_undo(struct iptables *ipt);
/* Leaves the rules in place; releases the port's reservation. */
void iptables_close(struct iptables **ipt);
/* Writes what must be restored on the host at the end (the reserved port, bridge ports in hairpin
 * mode): a line for iptables_inherit. */
void iptables_estate(const struct iptables *ipt, struct buf *estate);
/* Like iptables_close, but restores nothing: the line is written to `estate` for the successor.
 * *ipt NULL: does nothing. */
void iptables_leave(struct iptables **ipt, struct buf *estate);
/* Takes over the duty to restore what the line says. -EINVAL: not such a line, and nothing has
 * changed. */
int iptables_inherit(struct iptables *ipt, const char *estate);

#endif
