/*
 * The original destination of an accepted connection, before nftables redirected it
 * (SO_ORIGINAL_DST). A separate file so that tests, which have no NAT, can replace it.
 */
#ifndef EDGEWAY_LB_CONN_ORIGDST_H
#define EDGEWAY_LB_CONN_ORIGDST_H

#include <netinet/in.h>
#include <stdint.h>

/* ip: IPv4 as ::ffff:a.b.c.d; port in host byte order. Returns 0 or -errno. For a direct connection
 * the result is the listener's own address, or an error. */
int origdst_get(int fd, struct in6_addr *ip, uint16_t *port);

#endif
