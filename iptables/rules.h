/*
 * The agent's nftables table as netlink messages (libnftnl), and nothing else: no socket, no state.
 *As nft would print it:
 *
 *	table ip edgeway {
 *		chain prerouting { type nat hook prerouting priority dstnat - 5;
 *			iifname "docker0" ip daddr 9.251.0.0/16 meta l4proto tcp dnat to
 *172.17.0.1:40001 } chain output { type nat hook output priority dstnat - 5; meta mark != 0x... ip
 *daddr 9.251.0.0/16 meta l4proto tcp dnat to 172.17.0.1:40001 }
 *	}
 *
 * dstnat - 5 puts us in front of iptables, Docker and kube-proxy. The number of rules does not
 * depend on the number of services. Installing creates the table if it is missing, deletes it and
 * makes it anew, all in one transaction: what an earlier run left is replaced without a gap.
 */
#ifndef EDGEWAY_IPTABLES_RULES_H
#define EDGEWAY_IPTABLES_RULES_H

#include "base/buf.h"
#include "base/err.h"

#define RULES_TABLE "edgeway"
enum { RULES_INTERFACES_MAX = 64 };

struct rules {
	const char *const
		*interfaces; /* names or PREFIX*, NULL-terminated; those rules_check passes */
	uint32_t subnet, mask; /* host byte order */
	uint32_t address; /* of the listener, host byte order */
	uint16_t port;
	uint32_t mark; /* connections with it are left alone; 0: none are */
};

/* Is it a name of an interface, or the start of one followed by '*'? -EINVAL says what is wrong. */
int rules_check(const char *interface, struct err *err);
/* Both append one batch to `out`, numbered from *seq on, and return how many acknowledgements it
 * earns. */
unsigned rules_install(struct buf *out, uint32_t *seq, const struct rules *r);
unsigned rules_remove(struct buf *out, uint32_t *seq);

#endif
