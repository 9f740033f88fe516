/*
 * Shared by iptables.c (entry points), iptables_ranges.c (addresses of other nodes' pods),
 * iptables_report.c (metrics and state) and handover.c (what must be restored at the end). Loop 0
 * only.
 */
#ifndef EDGEWAY_IPTABLES_IPTABLES_PRIVATE_H
#define EDGEWAY_IPTABLES_IPTABLES_PRIVATE_H

#include "iptables/host/iface.h"
#include "iptables/host/preflight.h"
#include "iptables/iptables.h"
#include "iptables/maps/capture.h"
#include "iptables/maps/guard.h"
#include "iptables/maps/hairpin.h"
#include "iptables/maps/kernelpath.h"

#define IPTABLES_NO_SOCKETS                                                                        \
	"the kernel cannot tell our sockets from others' (CONFIG_NFT_SOCKET, modprobe "            \
	"nft_socket): whoever "                                                                    \
	"takes the agent's ports after it was killed gets what pods send to services"

struct iptables {
	struct loop *loop;
	const char *interface; /* that has the address, or is to have it */
	const char **interfaces; /* all of them, our own copies, NULL-terminated */
	size_t n_interfaces;
	struct buf
		matched; /* names that the rules have for globs of `interfaces`, each with '\0' */
	uint32_t subnet, mask, mark;
	struct fake6 subnet6;
	char trouble6[256]; /* why IPv6 is not served, "" it is or is not wanted */
	char told6[256]; /* what was last told of it */
	/* the kernel has no such table for IPv6: it is asked again then, on mono_ms; 0: it has not
	 * said so */
	uint64_t refused6_until_ms;
	loop_fn *changed6;
	uint16_t port, dns_port; /* port: mesh.listenPort, which is reserved */
	uint16_t proxy_port; /* the rules translate to it */
	bool port_ours; /* we have reserved it */
	bool port_read_only; /* no permission; logged once, not tried again */

	iptables_address_fn *fn;
	void *arg;
	struct iptables_side {
		struct iptables *iptables;
		const char *name;
		struct iface *iface; /* NULL: not followed */
		struct iface_state state;
		bool reported;
	} pods, ours; /* config.interface, and our own one */
	struct iface_state state; /* of the one that has the address, as last reported */
	enum iptables_own own;
	uint32_t own_address;
	struct timer *make_own; /* runs while our own interface is to be made */
	bool own_used; /* it had the address last: it is made again at once */
	bool own_refused; /* the last attempt to make it failed */
	bool reported;
	uint32_t told; /* the address last passed to fn */

	struct pod_ranges pod_ranges; /* of other nodes' pods; those that are in the table: */
	struct pod_ranges pod_ranges_put;

	struct guard guard;
	uint32_t address; /* the rules translate to it */
	struct capture capture;
	struct kernelpath *kernelpath;
	struct hairpin hairpin;
	struct preflight obstacles;
	struct timer *tend; /* looks after bridge ports and obstacles */
	uint64_t tended_ms;
	bool draining, old_kernel, no_sockets; /* as in struct rules */
	bool current; /* the table is as address, proxy_port and draining say */
	/* one bit for each UDP port that `relay` has returned since the table has its current
	 * address */
	uint8_t *relay_ports;
	struct buf new_relay_ports; /* uint16_t: ports not in the table yet */
	uint16_t (*relay)(void *arg, const struct service *s, const struct service_port *p);
	void *relay_arg;
};

/* --- iptables_ranges.c ---------------------------------------------------------------------- */
/* Finds which pods' addresses nobody else carries: pod_ranges_put. False: as before. */
bool iptables_ranges_look(struct iptables *ipt);
/* The same, and changes the table. */
void iptables_ranges_tend(struct iptables *ipt);

/* Reserves the port; we release it at the end unless it was already reserved. */
void handover_reserve(struct iptables *ipt);
void handover_give_back(struct iptables *ipt);

#endif
