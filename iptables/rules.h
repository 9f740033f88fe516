/*
 * The content of the agent's nftables table as one batch (batch.h, expr.h): no socket, no state. As
 * nft(8) would print it:
 *
 *	table ip edgeway {
 *		set upstreams { type ipv4_addr; flags timeout; }
 *		chain prerouting { type nat hook prerouting priority dstnat - 5;
 *			iifname "docker0" goto pods }
 *		chain output { type nat hook output priority dstnat - 5; meta mark != M goto mesh }
 *		chain pods {
 *			ip saddr != @upstreams ip daddr @upstreams udp dport 53 dnat to 172.17.0.1:53
 *			... the same for tcp
 *			goto mesh }
 *		chain mesh { ip daddr 9.251.0.0/16 goto proxy }
 *		chain proxy { meta l4proto tcp dnat to 172.17.0.1:40001 }
 *		chain forward { type filter hook forward priority filter;
 *			ip daddr 9.251.0.0/16 reject }
 *		chain local { type filter hook output priority filter; ip daddr 9.251.0.0/16 reject }
 *	}
 *
 * dstnat - 5 puts us in front of iptables, Docker and kube-proxy. The number of rules does not
 * depend on the number of services. Installing creates the table if it is missing, deletes it and
 * makes it anew, all in one transaction: what an earlier run left is replaced without a gap.
 * What is for the range and is not translated (no such service, nobody to serve it) is refused, not
 * dropped. `pods` leaves the upstreams' own queries alone: one may be a container here.
 */
#ifndef EDGEWAY_IPTABLES_RULES_H
#define EDGEWAY_IPTABLES_RULES_H

#include "base/err.h"
#include "iptables/batch.h"

enum { RULES_INTERFACES_MAX = 64 };

struct rules {
	const char *const
		*interfaces; /* names or PREFIX*, NULL-terminated; those rules_check passes */
	uint32_t subnet, mask; /* host byte order */
	uint32_t address; /* of the listener and of DNS, host byte order */
	uint16_t port, dns_port;
	uint32_t mark; /* connections with it are left alone; 0: none are */
};

/* Is it a name of an interface, or the start of one followed by '*'? -EINVAL says what is wrong. */
int rules_check(const char *interface, struct err *err);
/* Into an open batch. */
void rules_install(struct batch *b, const struct rules *r);
void rules_remove(struct batch *b);
/* Upstreams (host byte order) to capture for timeout_ms from now; replaces what was in the set. */
void rules_capture(struct batch *b, const uint32_t *upstreams, size_t n, uint64_t timeout_ms);

#endif
