/*
 * What the agent changes in the kernel, through netlink only (libnftnl, libmnl): the table `ip
 * edgeway` that sends TCP for the fake range to the listener, UDP (and TCP where asked for)
 * straight to the endpoints and pods' queries for other name servers to our DNS; the route that
 * lets host processes reach the range, and the reservation of the listen port. Also tells when the
 * mesh interface appears, changes its address or goes. Loop 0 only. The folder's door; the hub's
 * table is divert.h.
 */
#ifndef EDGEWAY_IPTABLES_IPTABLES_H
#define EDGEWAY_IPTABLES_IPTABLES_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "iptables/host/bridge_port.h"
#include "iptables/maps/divert.h"
#include "model/snapshot.h"

struct iptables;

/* Are ClusterIPs ours to serve? AUTO: where nobody else does, and without those of
 * default/kubernetes and kube-system/kube-dns. */
enum iptables_catch { IPTABLES_CATCH_AUTO, IPTABLES_CATCH_ALWAYS, IPTABLES_CATCH_NEVER };

struct iptables_config {
	struct loop *loop;
	const char *interface; /* mesh.interface: address and route */
	const char *const *interfaces; /* more bridges, globs; NULL-terminated, may be NULL */
	uint32_t subnet, mask; /* host byte order */
	uint16_t port; /* of the listener; reserved */
	uint16_t dns_port; /* of our DNS, on the same address */
	uint32_t mark; /* connections with it are left alone */
	bool kernel; /* mesh.datapath: kernel */
	enum iptables_catch catch;
	/* Where UDP for a service port goes whose endpoints the kernel cannot send to: a port of
	 * ours at the table's address. 0: it is refused. NULL: as if all were 0. Asked for within
	 * iptables_use and iptables_install. */
	uint16_t (*relay)(void *arg, const struct service *s, const struct service_port *p);
	void *relay_arg;
};

/* Address of the mesh interface, host byte order; 0: none (no interface, down, or no IPv4). */
typedef void iptables_address_fn(void *arg, uint32_t address);

/* Starts to follow the interface by rtnetlink; `fn` comes once soon and then at every change.
 * Reserves the port. */
int iptables_open(struct iptables **ipt, const struct iptables_config *config,
	iptables_address_fn *fn, void *arg, struct err *err);
/* The proxy listens on this port, not on config.port: for the next iptables_install. */
void iptables_use_port(struct iptables *ipt, uint16_t port);
/* One transaction: replaces our table (also one that an earlier run left), and the route. */
int iptables_install(struct iptables *ipt, uint32_t address, struct err *err);
/* From now on and for ten seconds queries of pods to port 53 of these upstreams (host byte order)
 * come to our DNS; call it again while DNS answers, and at once when the upstreams change. n 0: the
 * end. An error when the table is not installed. */
int iptables_capture(struct iptables *ipt, const uint32_t *upstreams, size_t n, struct err *err);
/* What the kernel carries by itself and which ClusterIPs are served: from this snapshot on, of
 * which a reference is taken. Before the table is installed as well. */
void iptables_use(struct iptables *ipt, const struct snapshot *snapshot);
/* config.relay says something else now. */
void iptables_relays(struct iptables *ipt);
/* The listener is about to close: new connections to it are refused; what the kernel carries goes
 * on, and connections that are there keep their translation. Until the next install. */
int iptables_drain(struct iptables *ipt, struct err *err);
/* Removes table and route; fine when they are not there. */
int iptables_remove(struct iptables *ipt, struct err *err);
/* What the kernel has made of a flow from this port to this address. Host byte order. */
struct iptables_flow {
	bool udp; /* else TCP */
	uint16_t from_port;
	uint32_t to;
	uint16_t to_port;
	uint32_t server; /* found: who really answers, and did he? */
	uint16_t server_port;
	bool replied;
};
/* 1: found; 0: there is no such flow; -errno. Reads the kernel's table as far as it, all of it for
 * 0: for operators. */
int iptables_flow(struct iptables_flow *flow, struct err *err);
bool iptables_installed(const struct iptables *ipt);
void iptables_metrics(struct iptables *ipt, struct metrics *m);
/* JSON object. others: also whose chains and rules have their say about our packets, which costs
 * more the more rules there are. */
void iptables_state(struct iptables *ipt, struct buf *out, bool others);
/* Puts back what iptables_inherit() is about. */
void iptables_undo(struct iptables *ipt);
/* Does not remove the rules; gives the port's reservation back. */
void iptables_close(struct iptables **ipt);
/* What is to be put back at the end (the reserved port, ports of bridges in hairpin mode): a line
 * for iptables_inherit. */
void iptables_estate(const struct iptables *ipt, struct buf *estate);
/* The same as iptables_close, but nothing is given back: that line is written to `estate` for the
 * one that goes on. *ipt NULL: nothing. */
void iptables_leave(struct iptables **ipt, struct buf *estate);
/* It is this one's to put back now. -EINVAL: no such line, and nothing has changed. */
int iptables_inherit(struct iptables *ipt, const char *estate);

#endif
