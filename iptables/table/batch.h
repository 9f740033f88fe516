/*
 * A transaction on one table of ours in nftables (family ip) as netlink messages (libnftnl,
 * libmnl), and nothing else: no socket. Every message asks for an acknowledgement; `acks` counts
 * them for nl_batch. Objects are made in the order of the calls; a rule may name a chain or set
 * that the same batch made before it.
 *
 *	batch_open(&b, RULES_TABLE, &bytes, &seq);
 *	batch_table(&b, NFT_MSG_NEWTABLE);
 *	batch_chain(&b, "mesh", NULL);
 *	batch_rule(&b, "mesh", rule);	// takes the rule over
 *	batch_close(&b);
 *	nl_batch(nl, buf_at(&bytes), buf_len(&bytes), b.acks);
 */
#ifndef EDGEWAY_IPTABLES_TABLE_BATCH_H
#define EDGEWAY_IPTABLES_TABLE_BATCH_H

#include <libnftnl/rule.h>
#include <libnftnl/udata.h>

#include "base/core/buf.h"

/* the longest: a message of set elements, see elements.c */
enum { BATCH_MESSAGE_MAX = 32768 };

struct batch {
	const char *table;
	struct buf *out;
	uint32_t *seq;
	unsigned acks;
	uint32_t sets; /* made in this batch, for their ids */
	char *bytes; /* of the message that is being made */
};

/* Where a base chain hangs; the policy is accept. */
struct batch_hook {
	const char *type; /* "nat", "filter" */
	uint32_t hook;
	int32_t priority;
};

struct batch_set {
	const char *name;
	uint32_t flags; /* NFT_SET_MAP, NFT_SET_TIMEOUT */
	uint32_t key_type, key_len; /* type: as nft(8) prints it, the kernel does not care */
	uint32_t data_type, data_len; /* of a map; NFT_DATA_VERDICT: chains */
	const struct nftnl_udata_buf *description; /* for nft(8), NULL: the types say it all */
};

/* table: must outlive the batch. */
void batch_open(struct batch *b, const char *table, struct buf *out, uint32_t *seq);
void batch_close(struct batch *b);
/* A message header of this type for `family` NFPROTO_IPV4 in b->bytes, and the message's end. */
struct nlmsghdr *batch_message(struct batch *b, uint16_t type, uint16_t flags);
void batch_add(struct batch *b, const struct nlmsghdr *nlh);

void batch_table(struct batch *b, uint16_t type); /* NFT_MSG_NEWTABLE or _DELTABLE */
void batch_chain(struct batch *b, const char *name, const struct batch_hook *hook);
void batch_set(struct batch *b, const struct batch_set *s);
void batch_rule(struct batch *b, const char *chain, struct nftnl_rule *r);
/* All rules of a chain go; the chain stays. */
void batch_flush_chain(struct batch *b, const char *chain);

#endif
