/*
 * The description that nft(8) needs to print the map of endpoints so that it can read it again. The
 * map's key ends with a number computed by a hash; nft has no type name for such a number, only an
 * expression (`typeof ... numgen inc mod 2`). The kernel stores the description with the map and
 * does not interpret it; an nft that does not know it prints the types instead. Pure.
 *
 *	struct nftnl_udata_buf *d = describe_endpoints(NFPROTO_IPV4);
 *	... nftnl_udata_buf_data(d), nftnl_udata_buf_len(d) ...
 *	nftnl_udata_buf_free(d);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_DESCRIBE_H
#define EDGEWAY_IPTABLES_MAPS_DESCRIBE_H

#include <libnftnl/udata.h>

/* typeof ip daddr . meta l4proto . th dport . numgen inc mod 2 : ip daddr . tcp dport */
struct nftnl_udata_buf *describe_endpoints(uint8_t family);

#endif
