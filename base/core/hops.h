/*
 * Detects forwarding loops: counts how often programs of this project have forwarded a request,
 * connection or datagram. Where an endpoint leads back to the mesh or to an ingress, traffic would
 * circulate for ever; so every forwarder counts, and a receiver that finds HOPS_MAX ends it with a
 * reason. Where the count is carried:
 *
 *	HTTP       one member of CDN-Loop (RFC 8586) per hop: http1_passes() counts them,
 *	           http1_emit_request adds one
 *	a tunnel   the stream's field edgeway-hop-count, in decimal; absent: 0
 *	TCP, UDP   the IP header: what we dial leaves with a TTL (hop limit) that is HOPS_TTL_STEP
 *	           lower for each hop. NAT and packet forwarding keep it; a third party's proxy in
 *	           between resets it. Routers on the path lower it too: four count as one hop.
 *
 * A client can understate the count only at the start, since each of our programs adds to the
 * received value. HOPS_MAX is more than any path through mesh, hub, replicas and nodes has.
 */
#ifndef EDGEWAY_BASE_CORE_HOPS_H
#define EDGEWAY_BASE_CORE_HOPS_H

#include "base/core/util.h"

enum {
	HOPS_MAX = 12,
	HOPS_TTL =
		/* RFC 1700; a higher TTL comes from a client with another default, not from us */
	64,
	HOPS_TTL_STEP = 4,
	HOPS_TEXT_MAX = 11,
};

#define HOPS_CDN_ID "edgeway"
#define HOPS_FIELD "edgeway-hop-count"
#define HOPS_REASON "loop detected: it has passed through Edgeway as often as it may"

unsigned hops_of_ttl(int ttl);
/* The count of an accepted TCP connection; a Unix socket: 0. */
unsigned hops_of_socket(int fd, int family);
/* Sets the count in what a socket sends from now on: call it before connect. 0 changes nothing. */
void hops_mark(int fd, int family, unsigned hops);
/* Datagrams received on this socket will carry their TTL, for pktinfo_recv. */
void hops_ask(int fd, int family);
/* Parses the value of HOPS_FIELD, "" when absent. Anything that is not a number gives HOPS_MAX. */
unsigned hops_parse(const char *text);
const char *hops_text(unsigned hops, char to[HOPS_TEXT_MAX]);

#endif
