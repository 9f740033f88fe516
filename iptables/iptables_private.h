/*
 * What the files of the spine share: iptables.c (the door), iptables_report.c (what is told
 * outside) and estate.c (what is put back at the end). Loop 0 only.
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
	char *interface;
	const char **interfaces; /* all of them, strings of our own, NULL-terminated */
	uint32_t subnet, mask, mark;
	uint16_t port, dns_port; /* port: mesh.listenPort, which is reserved */
	uint16_t proxy_port; /* the rules lead there */
	bool port_ours; /* we put it into the reserved ports */
	bool port_read_only; /* we may not; told once, not tried again */

	iptables_address_fn *fn;
	void *arg;
	struct iface *iface;
	struct iface_state state; /* of the last report */
	bool reported;
	uint32_t told; /* the address last given to fn */

	struct guard guard;
	uint32_t address; /* the rules lead there */
	struct capture capture;
	struct kernelpath *kernelpath;
	struct hairpin hairpin;
	struct preflight obstacles;
	struct timer *tend; /* to ports of bridges and to obstacles */
	uint64_t tended_ms;
	bool draining, old_kernel, no_sockets; /* as in struct rules */
	/* a bit for each UDP port that `relay` has named since the table's address is this one */
	uint8_t *relay_ports;
	struct buf new_relay_ports; /* uint16_t: those that the table does not know yet */
	uint64_t installs;
	uint16_t (*relay)(void *arg, const struct service *s, const struct service_port *p);
	void *relay_arg;
};

/* Reserves the port, which is ours to give back unless it was reserved already. */
void handover_reserve(struct iptables *ipt);
void handover_give_back(struct iptables *ipt);

#endif
