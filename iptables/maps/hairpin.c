#include "iptables/maps/hairpin.h"

#include <fnmatch.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "base/core/log.h"
#include "iptables/table/netlink.h"

#define ASKS_IPTABLES "/proc/sys/net/bridge/bridge-nf-call-iptables"
enum { MESSAGE_MAX = 256 };

struct link {
	int index, master;
	bool port, on; /* it is a bridge port; in hairpin mode */
	bool ours; /* it has the name of a bridge of the mesh */
};

struct look {
	const char *const *interfaces;
	struct buf links; /* struct link */
};

static bool
hairpin_matches(const char *const *patterns, const char *name)
{
	for (; *patterns != NULL; patterns++)
		if (fnmatch(*patterns, name, 0) == 0)
			return true;
	return false;
}

static void
read_info(struct link *l, const struct nlattr *info)
{
	const struct nlattr *kind = nl_nested(info, IFLA_INFO_SLAVE_KIND), *data, *mode;

	if (kind == NULL || mnl_attr_validate(kind, MNL_TYPE_NUL_STRING) < 0 ||
		strcmp(mnl_attr_get_str(kind), "bridge") != 0)
		return;
	data = nl_nested(info, IFLA_INFO_SLAVE_DATA);
	mode = data != NULL ? nl_nested(data, IFLA_BRPORT_MODE) : NULL;
	l->port = mode != NULL && mnl_attr_get_payload_len(mode) >= 1;
	l->on = l->port && mnl_attr_get_u8(mode) != 0;
}

static int
on_link(const struct nlmsghdr *nlh, void *arg)
{
	struct look *look = arg;
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	struct link l = {.index = info->ifi_index};
	const struct nlattr *details = nl_attr(nlh, sizeof *info, IFLA_LINKINFO);

	if (nlh->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	l.master = (int)nl_u32(nlh, sizeof *info, IFLA_MASTER);
	l.ours = hairpin_matches(look->interfaces, nl_text(nlh, sizeof *info, IFLA_IFNAME));
	if (details != NULL)
		read_info(&l, details);
	buf_add(&look->links, &l, sizeof l);
	return MNL_CB_OK;
}

static int
dump_links(struct mnl_socket *nl, struct look *look)
{
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = 1;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	return nl_request(nl, nlh, on_link, look);
}

static int
set_port(struct mnl_socket *nl, int index, bool on)
{
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct ifinfomsg *info;
	struct nlattr *nest;

	nlh->nlmsg_type = RTM_SETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	nlh->nlmsg_seq = 2;
	info = mnl_nlmsg_put_extra_header(nlh, sizeof *info);
	info->ifi_family = PF_BRIDGE;
	info->ifi_index = index;
	nest = mnl_attr_nest_start(nlh, IFLA_PROTINFO);
	mnl_attr_put_u8(nlh, IFLA_BRPORT_MODE, on);
	mnl_attr_nest_end(nlh, nest);
	return nl_request(nl, nlh, NULL, NULL);
}

static bool
asks_iptables(void)
{
	auto_free char *text = NULL;

	return file_read(ASKS_IPTABLES, 16, &text, NULL) == 0 && text[0] == '1';
}

static const struct link *
find_link(const struct link *list, size_t n, int index)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].index == index)
			return &list[i];
	return NULL;
}

static bool
in_mesh(const struct link *list, size_t n, const struct link *port)
{
	const struct link *bridge = find_link(list, n, port->master);

	return bridge != NULL && bridge->ours;
}

/* Containers come and go: forget ports that are gone, or that another program switched off. */
static void
forget_others(struct hairpin *h, const struct link *list, size_t n)
{
	size_t all = buf_len(&h->ports) / sizeof(int);

	for (size_t i = 0; i < all; i++) {
		const struct link *l;
		int index;

		memcpy(&index, buf_at(&h->ports), sizeof index);
		buf_consume(&h->ports, sizeof index);
		l = find_link(list, n, index);
		if (l != NULL && l->on)
			buf_add(&h->ports, &index, sizeof index);
	}
}

static void
switch_on(struct hairpin *h, struct mnl_socket *nl, const struct link *l)
{
	if (set_port(nl, l->index, true) < 0)
		h->failures++;
	else
		buf_add(&h->ports, &l->index, sizeof l->index);
}

void
hairpin_tend(struct hairpin *h, const char *const *interfaces)
{
	auto_nl struct mnl_socket *nl = NULL;
	struct look look = {.interfaces = interfaces};
	const struct link *list;
	size_t n;

	if (!asks_iptables() || nl_open(&nl, NETLINK_ROUTE, 0, NULL) < 0)
		return;
	buf_init(&look.links, BUF_UNLIMITED);
	if (dump_links(nl, &look) == 0 && buf_len(&look.links) > 0) {
		list = (const void *)buf_at(&look.links);
		n = buf_len(&look.links) / sizeof *list;
		forget_others(h, list, n);
		for (size_t i = 0; i < n; i++)
			if (list[i].port && !list[i].on && in_mesh(list, n, &list[i]))
				switch_on(h, nl, &list[i]);
	}
	buf_fini(&look.links);
}

/* Ignores ports that are gone. */
void
hairpin_undo(struct hairpin *h)
{
	auto_nl struct mnl_socket *nl = NULL;

	if (buf_len(&h->ports) > 0 && nl_open(&nl, NETLINK_ROUTE, 0, NULL) == 0) {
		while (buf_len(&h->ports) > 0) {
			int index;

			memcpy(&index, buf_at(&h->ports), sizeof index);
			buf_consume(&h->ports, sizeof index);
			(void)set_port(nl, index, false);
		}
	}
	buf_fini(&h->ports);
}

size_t
hairpin_count(const struct hairpin *h)
{
	return buf_len(&h->ports) / sizeof(int);
}
