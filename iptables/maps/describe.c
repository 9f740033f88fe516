#include "iptables/maps/describe.h"

#include <assert.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdint.h>

#include "base/core/util.h"

/* The numbers of nft(8) for its expressions, protocols and fields. They are stored in the kernel
 * with every map of this kind, so nft cannot change them. */
enum { NFT_PAYLOAD = 7, NFT_META = 9, NFT_CONCAT = 13, NFT_NUMGEN = 23 };
enum { NFT_TCP = 8, NFT_TH = 11, NFT_IP = 12, NFT_IP6 = 13 };
enum { NFT_DPORT = 2, NFT_IP_DADDR = 12, NFT_IP6_DADDR = 9 };
enum { VALUES_MAX = 3, DESCRIPTION_MAX = 256 };

struct part {
	uint32_t kind;
	uint32_t values[VALUES_MAX];
	uint8_t n_values;
};

static const struct part daddr = {NFT_PAYLOAD, {NFT_IP, NFT_IP_DADDR}, 2};
static const struct part daddr6 = {NFT_PAYLOAD, {NFT_IP6, NFT_IP6_DADDR}, 2};
static const struct part l4proto = {NFT_META, {NFT_META_L4PROTO}, 1};
static const struct part dport = {NFT_PAYLOAD, {NFT_TH, NFT_DPORT}, 2};
/* Not `th dport`: with `ip daddr . th dport` in the kernel nft 1.0.6 rejects every command, even
 * for other tables. With this it only adds a `meta l4proto tcp` when it prints the first rule that
 * names the map. */
static const struct part tcp_dport = {NFT_PAYLOAD, {NFT_TCP, NFT_DPORT}, 2};
static const struct part slot = {NFT_NUMGEN, {NFT_NG_INCREMENTAL, 2, 0}, 3};

static void
put_part(struct nftnl_udata_buf *b, uint8_t at, const struct part *p)
{
	struct nftnl_udata *part = nftnl_udata_nest_start(b, at), *data;

	nftnl_udata_put_u32(b, NFTNL_UDATA_SET_TYPEOF_EXPR, p->kind);
	data = nftnl_udata_nest_start(b, NFTNL_UDATA_SET_TYPEOF_DATA);
	for (uint8_t i = 0; i < p->n_values; i++)
		nftnl_udata_put_u32(b, i, p->values[i]);
	nftnl_udata_nest_end(b, data);
	nftnl_udata_nest_end(b, part);
}

static void
put_concat(struct nftnl_udata_buf *b, uint8_t what, const struct part *const *parts, uint8_t n)
{
	struct nftnl_udata *whole = nftnl_udata_nest_start(b, what), *data;

	nftnl_udata_put_u32(b, NFTNL_UDATA_SET_TYPEOF_EXPR, NFT_CONCAT);
	data = nftnl_udata_nest_start(b, NFTNL_UDATA_SET_TYPEOF_DATA);
	for (uint8_t i = 0; i < n; i++)
		put_part(b, i, parts[i]);
	nftnl_udata_nest_end(b, data);
	nftnl_udata_nest_end(b, whole);
}

struct nftnl_udata_buf *
describe_endpoints(uint8_t family)
{
	const struct part *ip = family == NFPROTO_IPV6 ? &daddr6 : &daddr;
	const struct part *const key[] = {ip, &l4proto, &dport, &slot};
	const struct part *const data[] = {ip, &tcp_dport};
	struct nftnl_udata_buf *b = nftnl_udata_buf_alloc(DESCRIPTION_MAX);

	assert(b != NULL);
	nftnl_udata_put_u32(b, NFTNL_UDATA_SET_KEYBYTEORDER, 0);
	nftnl_udata_put_u32(b, NFTNL_UDATA_SET_DATABYTEORDER, 0);
	put_concat(b, NFTNL_UDATA_SET_KEY_TYPEOF, key, ARRAY_LEN(key));
	put_concat(b, NFTNL_UDATA_SET_DATA_TYPEOF, data, ARRAY_LEN(data));
	return b;
}
