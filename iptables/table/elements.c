#include "iptables/table/elements.h"

#include <endian.h>
#include <linux/netfilter/nf_tables.h>

enum { ELEMENT_MAX = 256 }; /* the longest takes under 160 bytes */

void
elements_open(struct elements *e, struct batch *b, uint16_t type, const char *set)
{
	*e = (struct elements){.batch = b, .set = set, .type = type};
}

static void
elements_begin(struct elements *e)
{
	e->nlh = batch_message(e->batch, e->type, e->type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0);
	mnl_attr_put_strz(e->nlh, NFTA_SET_ELEM_LIST_TABLE, e->batch->table);
	mnl_attr_put_strz(e->nlh, NFTA_SET_ELEM_LIST_SET, e->set);
	e->list = mnl_attr_nest_start(e->nlh, NFTA_SET_ELEM_LIST_ELEMENTS);
}

void
elements_close(struct elements *e)
{
	if (e->nlh == NULL)
		return;
	mnl_attr_nest_end(e->nlh, e->list);
	batch_add(e->batch, e->nlh);
	e->nlh = NULL;
}

static void
put_value(struct nlmsghdr *nlh, uint16_t type, const void *bytes, uint16_t len)
{
	struct nlattr *nest = mnl_attr_nest_start(nlh, type);

	mnl_attr_put(nlh, NFTA_DATA_VALUE, len, bytes);
	mnl_attr_nest_end(nlh, nest);
}

static void
put_verdict(struct nlmsghdr *nlh, const char *chain)
{
	struct nlattr *data = mnl_attr_nest_start(nlh, NFTA_SET_ELEM_DATA);
	struct nlattr *verdict = mnl_attr_nest_start(nlh, NFTA_DATA_VERDICT);

	mnl_attr_put_u32(nlh, NFTA_VERDICT_CODE, htobe32((uint32_t)NFT_GOTO));
	mnl_attr_put_strz(nlh, NFTA_VERDICT_CHAIN, chain);
	mnl_attr_nest_end(nlh, verdict);
	mnl_attr_nest_end(nlh, data);
}

void
elements_add(struct elements *e, const struct element *one)
{
	struct nlattr *nest;

	if (e->nlh != NULL && e->nlh->nlmsg_len > BATCH_MESSAGE_MAX - ELEMENT_MAX)
		elements_close(e);
	if (e->nlh == NULL)
		elements_begin(e);
	nest = mnl_attr_nest_start(e->nlh, NFTA_LIST_ELEM);
	put_value(e->nlh, NFTA_SET_ELEM_KEY, one->key, one->key_len);
	if (one->end)
		mnl_attr_put_u32(e->nlh, NFTA_SET_ELEM_FLAGS, htobe32(NFT_SET_ELEM_INTERVAL_END));
	if (one->data != NULL)
		put_value(e->nlh, NFTA_SET_ELEM_DATA, one->data, one->data_len);
	if (one->chain != NULL)
		put_verdict(e->nlh, one->chain);
	if (one->timeout_ms != 0)
		mnl_attr_put_u64(e->nlh, NFTA_SET_ELEM_TIMEOUT, htobe64(one->timeout_ms));
	mnl_attr_nest_end(e->nlh, nest);
}

void
elements_flush(struct batch *b, const char *set)
{
	struct nlmsghdr *nlh = batch_message(b, NFT_MSG_DELSETELEM, 0);

	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, b->table);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, set);
	batch_add(b, nlh);
}
