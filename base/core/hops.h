/*
 * How often programs of ours have passed something on before it comes here. What an endpoint leads
 * back to the mesh or to an ingress, by one program or by several, would go round for ever; so
 * whoever passes on counts, and who gets what has HOPS_MAX ends it with a reason. The count travels
 * where there is room for it:
 *
 *	HTTP       a member of CDN-Loop (RFC 8586) for each time: http1_passes(), and http1_emit_request adds one
 *	a tunnel   the stream's field edgeway-hop-count, in decimal; absent: 0
 *	TCP, UDP   have none, so it is in the IP header: what we dial leaves with a TTL (hop limit) that is HOPS_TTL_STEP lower for each
 *	           time, as a router would lower it. It comes through NAT and whatever passes packets on, and a proxy of somebody
 *	           else's in between sets it back. Routers on the way make it lower too, and four of them count for one of us.
 *
 * Who says less than the truth can do so where it begins alone, since each of us adds to what it
 * was told. HOPS_MAX is more than any way through mesh, hub, replicas and nodes has.
 */
#ifndef EDGEWAY_BASE_CORE_HOPS_H
#define EDGEWAY_BASE_CORE_HOPS_H

#include "base/core/util.h"

enum {
	HOPS_MAX = 12,
	HOPS_TTL =
		/* RFC 1700; a TTL above it is of a client that counts otherwise, and not of ours */
	64,
	HOPS_TTL_STEP = 4,
	HOPS_TEXT_MAX = 11,
};

#define HOPS_CDN_ID "edgeway"
#define HOPS_FIELD "edgeway-hop-count"
#define HOPS_REASON "it goes round: it has passed through Edgeway as often as it may"

unsigned hops_of_ttl(int ttl);
/* Of an accepted TCP connection; a Unix socket: 0. */
unsigned hops_of_socket(int fd, int family);
/* For what a socket sends from now on, so before it connects. 0 leaves it as it is. */
void hops_mark(int fd, int family, unsigned hops);
/* Datagrams that come to this socket are to tell their TTL: pktinfo_recv. */
void hops_ask(int fd, int family);
/* The value of HOPS_FIELD, "" where there is none. Whatever is no number is HOPS_MAX. */
unsigned hops_parse(const char *text);
const char *hops_text(unsigned hops, char to[HOPS_TEXT_MAX]);

#endif
