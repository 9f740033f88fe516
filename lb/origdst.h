/*
 * Where an accepted connection wanted to go before nftables sent it here (SO_ORIGINAL_DST). A file
 * of its own: tests replace it, as they have no NAT.
 */
#ifndef EDGEWAY_LB_ORIGDST_H
#define EDGEWAY_LB_ORIGDST_H

#include <stdint.h>

/* Host byte order. 0 or -errno. On a direct connection it is the listener itself, or an error. */
int origdst_get(int fd, uint32_t *ip, uint16_t *port);

#endif
