/*
 * What the files of the spine share: iptables.c (the door), iptables_repair.c (what others do to our
 * table), iptables_report.c (what is told outside). Loop 0 only.
 */
#ifndef EDGEWAY_IPTABLES_IPTABLES_PRIVATE_H
#define EDGEWAY_IPTABLES_IPTABLES_PRIVATE_H

#include "iptables/capture.h"
#include "iptables/hairpin.h"
#include "iptables/iface.h"
#include "iptables/iptables.h"
#include "iptables/kernelpath.h"
#include "iptables/netlink.h"
#include "iptables/obstacles.h"

struct iptables {
	struct loop *loop;
	char *interface;
	const char **interfaces; /* all of them, strings of our own, NULL-terminated */
	uint32_t subnet, mask, mark;
	uint16_t port, dns_port;
	bool port_ours; /* we put it into the reserved ports */

	iptables_address_fn *fn;
	void *arg;
	struct iface *iface;
	struct iface_state state; /* of the last report */
	bool reported;
	uint32_t told; /* the address last given to fn */

	struct mnl_socket *changes; /* transactions */
	struct mnl_socket *events; /* what anybody changes in nftables */
	struct watch *watch;
	struct timer *repair;
	uint32_t seq;
	bool installed;
	uint32_t address; /* the rules lead there */
	uint32_t generation; /* of nftables, as far as we have read or made it */
	uint64_t repaired_ms;
	struct capture capture;
	struct kernelpath *kernelpath;
	struct hairpin hairpin;
	struct obstacles obstacles;
	struct timer *tend; /* to ports of bridges and to obstacles */
	uint64_t tended_ms;
	bool draining, old_kernel; /* as in struct rules */

	bool damaged; /* seen while draining events: somebody else touched our table */
	bool replaced; /* our last transaction made the table anew: what was done to the old one is past */
	char culprit[64]; /* and who: "name pid", as the kernel says */
	uint64_t installs, repairs, failures;
};

/* iptables.c: one transaction that replaces the table, and those that fill its maps. */
int iptables_install_table(struct iptables *ipt, struct err *err);

/* iptables_repair.c */
uint32_t repair_generation(struct iptables *ipt); /* of nftables now; 0 when it cannot be told */
void repair_now(void *iptables);
/* Right after the transaction that makes the table anew: reads what was done before it, which needs no repair any more. */
void repair_replaced(struct iptables *ipt);
/* Soon, but not within this call. */
void repair_later(struct iptables *ipt);
/* Reads what others have changed, and notes whether it concerns us. */
void repair_read_events(struct iptables *ipt);
void repair_on_events(void *iptables, int fd, unsigned events);

#endif
