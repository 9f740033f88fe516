#include "iptables/conntrack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <string.h>

#include "base/buf.h"
#include "iptables/netlink.h"

struct dump {
	uint8_t proto;
	conntrack_pick_fn *pick;
	void *arg;
	struct buf picked; /* attributes of each flow: its original tuple, then its id */
};

struct tuple {
	uint32_t src, dst;
	uint16_t sport, dport;
	uint8_t proto;
};

static const struct nlattr *
find(const struct nlattr *nest, uint16_t type, uint16_t len)
{
	const struct nlattr *a = nl_nested(nest, type);

	return a != NULL && mnl_attr_get_payload_len(a) >= len ? a : NULL;
}

static bool
read_tuple(const struct nlattr *nest, struct tuple *t)
{
	const struct nlattr *ip = find(nest, CTA_TUPLE_IP, 0);
	const struct nlattr *proto = find(nest, CTA_TUPLE_PROTO, 0);
	const struct nlattr *src, *dst, *num, *sport, *dport;

	if (ip == NULL || proto == NULL)
		return false;
	src = find(ip, CTA_IP_V4_SRC, sizeof t->src);
	dst = find(ip, CTA_IP_V4_DST, sizeof t->dst);
	num = find(proto, CTA_PROTO_NUM, sizeof t->proto);
	sport = find(proto, CTA_PROTO_SRC_PORT, sizeof t->sport);
	dport = find(proto, CTA_PROTO_DST_PORT, sizeof t->dport);
	if (src == NULL || dst == NULL || num == NULL || sport == NULL || dport == NULL)
		return false;
	t->src = ntohl(mnl_attr_get_u32(src));
	t->dst = ntohl(mnl_attr_get_u32(dst));
	t->proto = mnl_attr_get_u8(num);
	t->sport = ntohs(mnl_attr_get_u16(sport));
	t->dport = ntohs(mnl_attr_get_u16(dport));
	return true;
}

static void
keep(struct dump *d, const struct nlattr *original, const struct nlattr *id)
{
	buf_add(&d->picked, original, MNL_ALIGN(original->nla_len));
	buf_add(&d->picked, id, MNL_ALIGN(id->nla_len));
}

static int
on_flow(const struct nlmsghdr *nlh, void *arg)
{
	struct dump *d = arg;
	const unsigned head = sizeof(struct nfgenmsg);
	const struct nlattr *original = nl_attr(nlh, head, CTA_TUPLE_ORIG),
			    *reply = nl_attr(nlh, head, CTA_TUPLE_REPLY),
			    *status = nl_attr(nlh, head, CTA_STATUS),
			    *id = nl_attr(nlh, head, CTA_ID);
	struct conntrack_flow flow;
	struct tuple to, from;

	if (original == NULL || reply == NULL || status == NULL || id == NULL ||
		mnl_attr_get_payload_len(status) < sizeof(uint32_t) || !read_tuple(original, &to) ||
		!read_tuple(reply, &from) || to.proto != d->proto)
		return MNL_CB_OK;
	flow = (struct conntrack_flow){.proto = to.proto,
		.replied = (ntohl(mnl_attr_get_u32(status)) & IPS_SEEN_REPLY) != 0,
		.src = to.src,
		.dst = to.dst,
		.sport = to.sport,
		.dport = to.dport,
		.server = from.src,
		.server_port = from.sport};
	if (d->pick(d->arg, &flow))
		keep(d, original, id);
	return MNL_CB_OK;
}

static struct nlmsghdr *
message(char *bytes, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct nfgenmsg *gen;

	nlh->nlmsg_type = (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type);
	nlh->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	nlh->nlmsg_seq = 1;
	gen = mnl_nlmsg_put_extra_header(nlh, sizeof *gen);
	gen->nfgen_family = AF_INET;
	gen->version = NFNETLINK_V0;
	return nlh;
}

/* By tuple and id, so that a flow which began a moment ago with the same ports is not meant. */
static int
delete_picked(struct mnl_socket *nl, struct buf *picked)
{
	int n = 0;

	while (buf_len(picked) > 0) {
		char bytes[512];
		struct nlmsghdr *nlh = message(bytes, IPCTNL_MSG_CT_DELETE, NLM_F_ACK);
		int rc;

		for (int part = 0; part < 2; part++) {
			const struct nlattr *a = (const void *)buf_at(picked);
			size_t len = MNL_ALIGN(a->nla_len);

			if (nlh->nlmsg_len + len > sizeof bytes)
				return -EMSGSIZE;
			memcpy(mnl_nlmsg_get_payload_tail(nlh), a, len);
			nlh->nlmsg_len += (uint32_t)len;
			buf_consume(picked, len);
		}
		rc = nl_request(nl, nlh, NULL, NULL);
		if (rc < 0 && rc != -ENOENT)
			return rc;
		n += rc == 0;
	}
	return n;
}

int
conntrack_delete(uint8_t proto, conntrack_pick_fn *pick, void *arg, struct err *err)
{
	struct dump d = {.proto = proto, .pick = pick, .arg = arg};
	auto_nl struct mnl_socket *nl = NULL;
	char bytes[64];
	int rc = nl_open(&nl, NETLINK_NETFILTER, 0, err);

	if (rc < 0)
		return rc;
	buf_init(&d.picked, BUF_UNLIMITED);
	rc = nl_request(nl, message(bytes, IPCTNL_MSG_CT_GET, NLM_F_DUMP), on_flow, &d);
	if (rc == 0)
		rc = delete_picked(nl, &d.picked);
	buf_fini(&d.picked);
	if (rc < 0)
		return err_set(
			err, rc, "cannot end flows of the old way (ctnetlink): %s", strerror(-rc));
	return rc;
}
