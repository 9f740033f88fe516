/*
 * Builds a transaction on our tables in nftables (one name, families ip and ip6) as netlink
 * messages (libnftnl, libmnl); it has no socket. Every message requests an acknowledgement; `acks`
 * counts them for nl_batch. Objects are created in the order of the calls; a rule may name a chain
 * or set created earlier in the same batch.
 *
 *	batch_open(&b, RULES_TABLE, &bytes, &seq);
 *	batch_table(&b, NFT_MSG_NEWTABLE);
 *	batch_chain(&b, "mesh", NULL);
 *	batch_rule(&b, "mesh", rule);	// takes ownership of the rule
 *	batch_close(&b);
 *	nl_batch(nl, buf_at(&bytes), buf_len(&bytes), b.acks);
 */
#ifndef EDGEWAY_IPTABLES_TABLE_BATCH_H
#define EDGEWAY_IPTABLES_TABLE_BATCH_H

#include <libnftnl/rule.h>
#include <libnftnl/udata.h>

#include "base/core/buf.h"

/* the longest one: set elements, see elements.c */
enum { BATCH_MESSAGE_MAX = 32768 };

struct batch {
	const char *table;
	/* of the messages that follow: NFPROTO_IPV4 from batch_open on, or NFPROTO_IPV6 */
	uint8_t family;
	struct buf *out;
	uint32_t *seq;
	unsigned acks;
	uint32_t sets; /* number created in this batch, for their ids */
	char *bytes; /* of the message being built */
};

/* Where a base chain is attached; its policy is accept. */
struct batch_hook {
	const char *type; /* "nat", "filter" */
	uint32_t hook;
	int32_t priority;
};

struct batch_set {
	const char *name;
	uint32_t flags; /* NFT_SET_MAP, NFT_SET_TIMEOUT */
	uint32_t key_type, key_len; /* type: for nft(8) only, the kernel ignores it */
	uint32_t data_type, data_len; /* of a map; NFT_DATA_VERDICT: chains */
	const struct nftnl_udata_buf *description; /* for nft(8); NULL: the types suffice */
};

/* table: must outlive the batch. */
void batch_open(struct batch *b, const char *table, struct buf *out, uint32_t *seq);
void batch_close(struct batch *b);
/* Begins a message of this type for b->family in b->bytes; batch_add completes it. */
struct nlmsghdr *batch_message(struct batch *b, uint16_t type, uint16_t flags);
void batch_add(struct batch *b, const struct nlmsghdr *nlh);

void batch_table(struct batch *b, uint16_t type); /* NFT_MSG_NEWTABLE or _DELTABLE */
void batch_chain(struct batch *b, const char *name, const struct batch_hook *hook);
void batch_set(struct batch *b, const struct batch_set *s);
void batch_rule(struct batch *b, const char *chain, struct nftnl_rule *r);
/* Deletes all rules of a chain; the chain stays. */
void batch_flush_chain(struct batch *b, const char *chain);

#endif
