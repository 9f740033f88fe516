#include "iptables/table/batch.h"

#include <assert.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

void
batch_add(struct batch *b, const struct nlmsghdr *nlh)
{
	assert(nlh->nlmsg_len <= BATCH_MESSAGE_MAX);
	buf_add(b->out, b->bytes, nlh->nlmsg_len);
	(*b->seq)++;
}

void
batch_open(struct batch *b, const char *table, struct buf *out, uint32_t *seq)
{
	*b = (struct batch){.table = table,
		.family = NFPROTO_IPV4,
		.out = out,
		.seq = seq,
		.bytes = xmalloc(BATCH_MESSAGE_MAX)};
	batch_add(b, nftnl_batch_begin(b->bytes, *b->seq));
}

void
batch_close(struct batch *b)
{
	batch_add(b, nftnl_batch_end(b->bytes, *b->seq));
	free(take_ptr(&b->bytes));
}

struct nlmsghdr *
batch_message(struct batch *b, uint16_t type, uint16_t flags)
{
	b->acks++;
	return nftnl_nlmsg_build_hdr(b->bytes, type, b->family, flags | NLM_F_ACK, *b->seq);
}

void
batch_table(struct batch *b, uint16_t type)
{
	struct nftnl_table *t = nftnl_table_alloc();
	struct nlmsghdr *nlh = batch_message(b, type, type == NFT_MSG_NEWTABLE ? NLM_F_CREATE : 0);

	assert(t != NULL);
	nftnl_table_set_str(t, NFTNL_TABLE_NAME, b->table);
	nftnl_table_nlmsg_build_payload(nlh, t);
	nftnl_table_free(t);
	batch_add(b, nlh);
}

void
batch_chain(struct batch *b, const char *name, const struct batch_hook *hook)
{
	struct nftnl_chain *c = nftnl_chain_alloc();
	struct nlmsghdr *nlh = batch_message(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);

	assert(c != NULL);
	nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, b->table);
	nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, name);
	if (hook != NULL) {
		nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, hook->type);
		nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, hook->hook);
		nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, hook->priority);
		nftnl_chain_set_u32(c, NFTNL_CHAIN_POLICY, NF_ACCEPT);
	}
	nftnl_chain_nlmsg_build_payload(nlh, c);
	nftnl_chain_free(c);
	batch_add(b, nlh);
}

void
batch_set(struct batch *b, const struct batch_set *s)
{
	struct nftnl_set *set = nftnl_set_alloc();
	struct nlmsghdr *nlh = batch_message(b, NFT_MSG_NEWSET, NLM_F_CREATE);

	assert(set != NULL);
	nftnl_set_set_str(set, NFTNL_SET_TABLE, b->table);
	nftnl_set_set_str(set, NFTNL_SET_NAME, s->name);
	nftnl_set_set_u32(set, NFTNL_SET_ID, ++b->sets);
	nftnl_set_set_u32(set, NFTNL_SET_FAMILY, b->family);
	nftnl_set_set_u32(set, NFTNL_SET_FLAGS, s->flags);
	nftnl_set_set_u32(set, NFTNL_SET_KEY_TYPE, s->key_type);
	nftnl_set_set_u32(set, NFTNL_SET_KEY_LEN, s->key_len);
	if (s->flags & NFT_SET_MAP) {
		nftnl_set_set_u32(set, NFTNL_SET_DATA_TYPE, s->data_type);
		nftnl_set_set_u32(set, NFTNL_SET_DATA_LEN, s->data_len);
	}
	if (s->description != NULL)
		nftnl_set_set_data(set, NFTNL_SET_USERDATA, nftnl_udata_buf_data(s->description),
			nftnl_udata_buf_len(s->description));
	nftnl_set_nlmsg_build_payload(nlh, set);
	nftnl_set_free(set);
	batch_add(b, nlh);
}

void
batch_rule(struct batch *b, const char *chain, struct nftnl_rule *r)
{
	struct nlmsghdr *nlh = batch_message(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);

	nftnl_rule_set_str(r, NFTNL_RULE_TABLE, b->table);
	nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, chain);
	nftnl_rule_nlmsg_build_payload(nlh, r);
	nftnl_rule_free(r);
	batch_add(b, nlh);
}

void
batch_flush_chain(struct batch *b, const char *chain)
{
	struct nlmsghdr *nlh = batch_message(b, NFT_MSG_DELRULE, 0);

	mnl_attr_put_strz(nlh, NFTA_RULE_TABLE, b->table);
	mnl_attr_put_strz(nlh, NFTA_RULE_CHAIN, chain);
	batch_add(b, nlh);
}
