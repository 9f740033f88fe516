/*
 * dns.host: resolved. Routes the cluster's names, and the fake IPs' reverse names, to our DNS
 * server in systemd-resolved, by settings of the link that has the mesh address, and leaves
 * resolv.conf alone. By D-Bus (org.freedesktop.resolve1), as resolvectl(1) does it: a drop-in file
 * would need a restart of resolved, and our server would be asked for all names then.
 *
 * resolved keeps a link's settings over a restart of its own, but not when the link is made anew,
 * or when another program sets them: resolvlink_look, called now and then and when resolved has
 * written its list of servers, sets them again. The link is noted in the caller's dns_keep before
 * it is changed, so that the next start can undo what a killed run left. Loop 0; does not block.
 *
 *	resolvlink_open(&l, &config);	// undoes an earlier run's setting, unless config.wanted
 *	resolvlink_use(l, address);	// again when it changes; 0: undoes it
 *	resolvlink_close(&l, on_closed, arg);	// calls it once nothing is under way any more
 */
#ifndef EDGEWAY_DNS_RESOLVCONF_RESOLVLINK_H
#define EDGEWAY_DNS_RESOLVCONF_RESOLVLINK_H

#include "base/core/buf.h"
#include "base/core/loop.h"
#include "dns/dns.h"

struct resolvlink;

struct resolvlink_config {
	struct loop *loop;
	bool wanted; /* dns.host is resolved */
	const char *cluster_domain;
	uint32_t subnet, mask; /* of the fake IPs, host byte order */
	struct fake6 subnet6; /* of the IPv6 ones; bits 0: none */
	uint16_t port;
	const char *servers; /* where resolved writes the servers that it knows */
	const char *bus; /* NULL: the system bus */
	struct dns_keep keep;
	bool held; /* see resolvlink_hold */
};

void resolvlink_open(struct resolvlink **l, const struct resolvlink_config *config);
void resolvlink_use(struct resolvlink *l, uint32_t address); /* host byte order */
void resolvlink_look(struct resolvlink *l);
/* The keep is closed while it is held: nothing is begun, and what ends is noted afterwards, or by a
 * successor, which finds it in the keep and asks again. */
void resolvlink_hold(struct resolvlink *l, bool held);
void resolvlink_close(struct resolvlink **l, loop_fn *closed, void *arg);
/* "way":"file", or "way":"resolved","link":NAME,"set":BOOL,"fault":TEXT: members of a JSON
 * object. */
void resolvlink_state(const struct resolvlink *l, struct buf *out);

#endif
