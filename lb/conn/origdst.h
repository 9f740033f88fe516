/*
 * The original destination of an accepted connection, before nftables redirected it
 * (SO_ORIGINAL_DST). A separate file so that tests, which have no NAT, can replace it.
 */
#ifndef EDGEWAY_LB_CONN_ORIGDST_H
#define EDGEWAY_LB_CONN_ORIGDST_H

#include <stdint.h>

/* Host byte order. Returns 0 or -errno. For a direct connection the result is the listener's own
 * address, or an error. */
int origdst_get(int fd, uint32_t *ip, uint16_t *port);

#endif
