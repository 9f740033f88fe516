#include "iptables/host/hook_conflicts.h"

#include <arpa/inet.h>
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#include "base/core/util.h"
#include "iptables/table/netlink.h"

enum { TEXT_MAX = 400 };

struct chain {
	const char *table, *name, *type;
	uint8_t family;
	uint32_t hook, policy;
	int32_t priority;
};

struct search {
	const char *ours;
	int32_t priority;
	unsigned of; /* enum hook_conflicts_of */
	void (*found)(const struct search *s, const struct chain *c);
	struct buf *out;
};

static uint32_t
number_of(const struct nlattr *a)
{
	return a == NULL || mnl_attr_get_payload_len(a) != sizeof(uint32_t)
		? UINT32_MAX
		: ntohl(mnl_attr_get_u32(a));
}

static bool
hook_conflicts_meant(uint8_t family, unsigned of)
{
	return family == NFPROTO_INET || (family == NFPROTO_IPV4 && of & HOOK_CONFLICTS_V4) ||
		(family == NFPROTO_IPV6 && of & HOOK_CONFLICTS_V6);
}

static int
on_chain(const struct nlmsghdr *nlh, void *arg)
{
	const struct search *s = arg;
	const struct nfgenmsg *gen = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *hook = nl_attr(nlh, sizeof *gen, NFTA_CHAIN_HOOK);
	struct chain c = {.table = nl_text(nlh, sizeof *gen, NFTA_CHAIN_TABLE),
		.name = nl_text(nlh, sizeof *gen, NFTA_CHAIN_NAME),
		.type = nl_text(nlh, sizeof *gen, NFTA_CHAIN_TYPE),
		.family = gen->nfgen_family,
		.policy = number_of(nl_attr(nlh, sizeof *gen, NFTA_CHAIN_POLICY))};

	if (hook == NULL || buf_len(s->out) >= TEXT_MAX || !hook_conflicts_meant(c.family, s->of))
		return MNL_CB_OK;
	c.hook = number_of(nl_nested(hook, NFTA_HOOK_HOOKNUM));
	c.priority = (int32_t)number_of(nl_nested(hook, NFTA_HOOK_PRIORITY));
	s->found(s, &c);
	return MNL_CB_OK;
}

static void
hook_conflicts_look(struct search *s)
{
	char bytes[256];
	struct nlmsghdr *nlh =
		nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETCHAIN, NFPROTO_UNSPEC, NLM_F_DUMP, 1);
	auto_nl struct mnl_socket *nl = NULL;

	if (nl_open(&nl, NETLINK_NETFILTER, 0, NULL) == 0)
		(void)nl_request(nl, nlh, on_chain, s);
}

static const char *
hook_conflicts_comma(const struct search *s)
{
	return buf_len(s->out) > 0 ? ", " : "";
}

static void
on_translating(const struct search *s, const struct chain *c)
{
	if ((c->hook == NF_INET_LOCAL_OUT || c->hook == NF_INET_PRE_ROUTING) &&
		c->priority <= s->priority && strcmp(c->type, "nat") == 0 &&
		strcmp(c->table, s->ours) != 0)
		buf_printf(s->out, "%s%s%.64s %.64s (%s, priority %d)", hook_conflicts_comma(s),
			c->family == NFPROTO_IPV6 && s->of & HOOK_CONFLICTS_V4 ? "ip6 " : "",
			c->table, c->name, c->hook == NF_INET_LOCAL_OUT ? "output" : "prerouting",
			c->priority);
}

static void
on_dropping(const struct search *s, const struct chain *c)
{
	static const char *const hooks[] = {[NF_INET_PRE_ROUTING] = "prerouting",
		[NF_INET_LOCAL_IN] = "input",
		[NF_INET_FORWARD] = "forward"};

	if (c->hook < ARRAY_LEN(hooks) && c->policy == NF_DROP)
		buf_printf(s->out, "%s%.64s %.64s (%s)", hook_conflicts_comma(s), c->table, c->name,
			hooks[c->hook]);
}

void
hook_conflicts_translating(const char *ours, int32_t priority, unsigned of, struct buf *out)
{
	struct search s = {
		.ours = ours, .priority = priority, .of = of, .found = on_translating, .out = out};

	hook_conflicts_look(&s);
}

void
hook_conflicts_dropping(unsigned of, struct buf *out)
{
	struct search s = {.of = of, .found = on_dropping, .out = out};

	hook_conflicts_look(&s);
}

/* --- rules ---------------------------------------------------------------------------------- */

struct rule_search {
	const char *ours;
	unsigned of; /* enum hook_conflicts_of */
	struct buf *out, last; /* last: the last chain written */
};

static bool
hook_conflicts_is_drop(const struct nlattr *expression)
{
	const struct nlattr *name = nl_nested(expression, NFTA_EXPR_NAME),
			    *data = nl_nested(expression, NFTA_EXPR_DATA), *verdict;

	if (name == NULL || mnl_attr_validate(name, MNL_TYPE_NUL_STRING) < 0)
		return false;
	if (strcmp(mnl_attr_get_str(name), "reject") == 0)
		return true;
	if (strcmp(mnl_attr_get_str(name), "immediate") != 0 || data == NULL)
		return false;
	verdict = nl_nested(data, NFTA_IMMEDIATE_DATA);
	verdict = verdict != NULL ? nl_nested(verdict, NFTA_DATA_VERDICT) : NULL;
	return verdict != NULL && number_of(nl_nested(verdict, NFTA_VERDICT_CODE)) == NF_DROP;
}

static int
on_rule(const struct nlmsghdr *nlh, void *arg)
{
	struct rule_search *s = arg;
	const struct nfgenmsg *gen = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *list = nl_attr(nlh, sizeof *gen, NFTA_RULE_EXPRESSIONS);
	struct nlattr *e;
	const char *table = nl_text(nlh, sizeof *gen, NFTA_RULE_TABLE),
		   *chain = nl_text(nlh, sizeof *gen, NFTA_RULE_CHAIN);
	auto_free char *where = xasprintf("%.64s %.64s", table, chain);

	if (list == NULL || buf_len(s->out) >= TEXT_MAX || strcmp(table, s->ours) == 0 ||
		strcmp(buf_str(&s->last), where) == 0 ||
		!hook_conflicts_meant(gen->nfgen_family, s->of))
		return MNL_CB_OK;
	mnl_attr_for_each_nested(e, list)
	{
		if (!hook_conflicts_is_drop(e))
			continue;
		buf_printf(s->out, "%s%s", buf_len(s->out) > 0 ? ", " : "", where);
		buf_consume(&s->last, buf_len(&s->last));
		buf_adds(&s->last, where);
		break;
	}
	return MNL_CB_OK;
}

void
hook_conflicts_drop_rules(const char *ours, unsigned of, struct buf *out)
{
	struct rule_search s = {.ours = ours, .of = of, .out = out};
	char bytes[256];
	struct nlmsghdr *nlh =
		nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETRULE, NFPROTO_UNSPEC, NLM_F_DUMP, 1);
	auto_nl struct mnl_socket *nl = NULL;

	buf_init(&s.last, BUF_UNLIMITED);
	if (nl_open(&nl, NETLINK_NETFILTER, 0, NULL) == 0)
		(void)nl_request(nl, nlh, on_rule, &s);
	buf_fini(&s.last);
}

void
hook_conflicts_legacy(struct buf *out)
{
	auto_free char *text = NULL;
	char *save = NULL;

	if (file_read("/proc/net/ip_tables_names", TEXT_MAX, &text, NULL) < 0)
		return;
	for (char *at = strtok_r(text, "\n", &save); at != NULL; at = strtok_r(NULL, "\n", &save))
		buf_printf(out, "%s%s", buf_len(out) > 0 ? ", " : "", at);
}
