#include "iptables/maps/conntrack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <string.h>

#include "base/core/sock.h"
#include "iptables/host/iface.h"
#include "iptables/table/netlink.h"

enum { MESSAGE_MAX = 512, SEND_MAX = 65536 };

struct dump {
	uint8_t proto; /* 0: all */
	conntrack_pick_fn *pick;
	void *arg;
	unsigned n, most;
	struct buf picked; /* one message per flow, which deletes it */
	struct conntrack_flow *found; /* NULL: delete the selected flows */
};

struct tuple {
	struct in6_addr src, dst;
	uint16_t sport, dport;
	uint8_t proto;
};

/* Indexed by type; one pass, since there may be some hundred thousand flows. */
enum { ATTRS_MAX = 16 };
struct attrs {
	const struct nlattr *of[ATTRS_MAX];
};

/* libmnl's own loops cast const away. */
static int
on_attr(const struct nlattr *a, void *arg)
{
	struct attrs *to = arg;
	uint16_t type = mnl_attr_get_type(a);

	if (type < ATTRS_MAX)
		to->of[type] = a;
	return MNL_CB_OK;
}

static bool
read_nest(struct attrs *to, const struct nlattr *nest)
{
	*to = (struct attrs){0};
	return nest != NULL && mnl_attr_parse_nested(nest, on_attr, to) >= 0;
}

static bool
conntrack_has(const struct attrs *from, uint16_t type, size_t len)
{
	return from->of[type] != NULL && mnl_attr_get_payload_len(from->of[type]) >= len;
}

static bool
read_ip(const struct attrs *from, uint16_t v4, uint16_t v6, struct in6_addr *ip)
{
	if (conntrack_has(from, v4, sizeof(uint32_t)))
		*ip = ip_of_v4(ntohl(mnl_attr_get_u32(from->of[v4])));
	else if (conntrack_has(from, v6, sizeof *ip))
		memcpy(ip, mnl_attr_get_payload(from->of[v6]), sizeof *ip);
	else
		return false;
	return true;
}

static bool
read_tuple(const struct nlattr *nest, struct tuple *t)
{
	struct attrs tuple, ip, proto;

	if (!read_nest(&tuple, nest) || !read_nest(&ip, tuple.of[CTA_TUPLE_IP]) ||
		!read_nest(&proto, tuple.of[CTA_TUPLE_PROTO]) ||
		!read_ip(&ip, CTA_IP_V4_SRC, CTA_IP_V6_SRC, &t->src) ||
		!read_ip(&ip, CTA_IP_V4_DST, CTA_IP_V6_DST, &t->dst) ||
		!conntrack_has(&proto, CTA_PROTO_NUM, sizeof t->proto) ||
		!conntrack_has(&proto, CTA_PROTO_SRC_PORT, sizeof t->sport) ||
		!conntrack_has(&proto, CTA_PROTO_DST_PORT, sizeof t->dport))
		return false;
	t->proto = mnl_attr_get_u8(proto.of[CTA_PROTO_NUM]);
	t->sport = ntohs(mnl_attr_get_u16(proto.of[CTA_PROTO_SRC_PORT]));
	t->dport = ntohs(mnl_attr_get_u16(proto.of[CTA_PROTO_DST_PORT]));
	return true;
}

static struct nlmsghdr *
conntrack_message(char *bytes, uint8_t family, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct nfgenmsg *gen;

	nlh->nlmsg_type = (uint16_t)(NFNL_SUBSYS_CTNETLINK << 8 | type);
	nlh->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	nlh->nlmsg_seq = 1;
	gen = mnl_nlmsg_put_extra_header(nlh, sizeof *gen);
	gen->nfgen_family = family;
	gen->version = NFNETLINK_V0;
	return nlh;
}

/* Deletes by tuple and id, so that a flow which began a moment ago with the same ports is not
 * affected. */
static void
conntrack_pick(
	struct dump *d, uint8_t family, const struct nlattr *original, const struct nlattr *id)
{
	const struct nlattr *const parts[] = {original, id};
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = conntrack_message(bytes, family, IPCTNL_MSG_CT_DELETE, 0);

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		size_t len = MNL_ALIGN(parts[i]->nla_len);

		if (nlh->nlmsg_len + len > sizeof bytes)
			return;
		memcpy(mnl_nlmsg_get_payload_tail(nlh), parts[i], len);
		nlh->nlmsg_len += (uint32_t)len;
	}
	buf_add(&d->picked, nlh, nlh->nlmsg_len);
	d->n++;
}

static int
on_flow(const struct nlmsghdr *nlh, void *arg)
{
	struct dump *d = arg;
	struct conntrack_flow flow;
	struct attrs all = {0};
	struct tuple to, from;
	const struct nfgenmsg *gen = mnl_nlmsg_get_payload(nlh);

	mnl_attr_parse(nlh, sizeof(struct nfgenmsg), on_attr, &all);
	if (!conntrack_has(&all, CTA_STATUS, sizeof(uint32_t)) ||
		!conntrack_has(&all, CTA_ID, sizeof(uint32_t)) ||
		!read_tuple(all.of[CTA_TUPLE_ORIG], &to) ||
		(d->proto != 0 && to.proto != d->proto) ||
		!read_tuple(all.of[CTA_TUPLE_REPLY], &from))
		return MNL_CB_OK;
	flow = (struct conntrack_flow){.proto = to.proto,
		.replied = (ntohl(mnl_attr_get_u32(all.of[CTA_STATUS])) & IPS_SEEN_REPLY) != 0,
		.src = to.src,
		.dst = to.dst,
		.sport = to.sport,
		.dport = to.dport,
		.server = from.src,
		.server_port = from.sport};
	if (d->n == d->most || !d->pick(d->arg, &flow))
		return MNL_CB_OK;
	if (d->found != NULL) {
		*d->found = flow;
		d->n++;
		return MNL_CB_STOP; /* the dump only goes on if we read on; we close the socket */
	}
	conntrack_pick(d, gen->nfgen_family, all.of[CTA_TUPLE_ORIG], all.of[CTA_ID]);
	return MNL_CB_OK;
}

/* The length of as many whole messages as one call may take. */
static size_t
first_messages(const struct buf *picked)
{
	const struct nlmsghdr *nlh = (const void *)buf_at(picked);
	int left = (int)MIN(buf_len(picked), (size_t)SEND_MAX);
	size_t all = (size_t)left;

	while (mnl_nlmsg_ok(nlh, left))
		nlh = mnl_nlmsg_next(nlh, &left);
	return all - (size_t)left;
}

static int
delete_picked(struct mnl_socket *nl, struct dump *d)
{
	int rc = 0;

	while (rc == 0 && buf_len(&d->picked) > 0) {
		size_t len = first_messages(&d->picked);

		rc = nl_messages(nl, buf_at(&d->picked), len);
		buf_consume(&d->picked, len);
	}
	return rc < 0 ? rc : (int)d->n;
}

static int
conntrack_delete_picked(
	uint8_t proto, conntrack_pick_fn *pick_fn, void *arg, unsigned most, struct err *err)
{
	struct dump d = {.proto = proto, .pick = pick_fn, .arg = arg, .most = most};
	auto_nl struct mnl_socket *nl = NULL;
	char bytes[64];
	int rc = nl_open(&nl, NETLINK_NETFILTER, 0, err);

	if (rc < 0)
		return rc;
	buf_init(&d.picked, BUF_UNLIMITED);
	rc = nl_request(nl, conntrack_message(bytes, AF_UNSPEC, IPCTNL_MSG_CT_GET, NLM_F_DUMP),
		on_flow, &d);
	if (rc == 0)
		rc = delete_picked(nl, &d);
	buf_fini(&d.picked);
	if (rc < 0)
		return err_set(
			err, rc, "cannot end flows of the old way (ctnetlink): %s", strerror(-rc));
	return rc;
}

int
conntrack_delete(uint8_t proto, struct buf *locals, conntrack_pick_fn *pick_fn, void *arg,
	unsigned most, struct err *err)
{
	int rc;

	buf_init(locals, BUF_UNLIMITED);
	rc = iface_addresses(locals);
	if (rc < 0)
		err_set(err, rc, "cannot read the host's addresses: %s", strerror(-rc));
	else
		rc = conntrack_delete_picked(proto, pick_fn, arg, most, err);
	buf_fini(locals);
	return rc;
}

int
conntrack_find(uint8_t proto, conntrack_pick_fn *pick_fn, void *arg, struct conntrack_flow *found,
	struct err *err)
{
	struct dump d = {.proto = proto, .pick = pick_fn, .arg = arg, .most = 1, .found = found};
	auto_nl struct mnl_socket *nl = NULL;
	char bytes[64];
	int rc = nl_open(&nl, NETLINK_NETFILTER, 0, err);

	if (rc == 0)
		rc = nl_request(nl,
			conntrack_message(bytes, AF_UNSPEC, IPCTNL_MSG_CT_GET, NLM_F_DUMP), on_flow,
			&d);
	if (rc < 0)
		return err_set(
			err, rc, "cannot read the kernel's flows (ctnetlink): %s", strerror(-rc));
	return (int)d.n;
}
