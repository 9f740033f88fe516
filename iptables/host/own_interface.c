#include "iptables/host/own_interface.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include "base/core/sock.h"
#include "iptables/host/iface.h"
#include "iptables/table/netlink.h"

enum { MESSAGE_MAX = 256, ADDRESS_BITS = 32 };
#define ALIAS "edgeway-agent"

static struct nlmsghdr *
own_link_message(char *bytes, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct ifinfomsg *info;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	nlh->nlmsg_seq = 1;
	info = mnl_nlmsg_put_extra_header(nlh, sizeof *info);
	info->ifi_flags = info->ifi_change = type == RTM_NEWLINK ? IFF_UP : 0;
	mnl_attr_put_strz(nlh, IFLA_IFNAME, OWN_INTERFACE);
	return nlh;
}

static int
own_link_set(struct mnl_socket *nl, const char *kind)
{
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = own_link_message(bytes, RTM_NEWLINK, NLM_F_CREATE);
	struct nlattr *details = mnl_attr_nest_start(nlh, IFLA_LINKINFO);

	mnl_attr_put_strz(nlh, IFLA_INFO_KIND, kind);
	mnl_attr_nest_end(nlh, details);
	return nl_request(nl, nlh, NULL, NULL);
}

enum { OWN_LINK_DOWN = 1, OWN_LINK_UP };

/* OWN_LINK_*: it is there and ours; 0: there is none; -EEXIST: it is somebody else's. */
static int
on_own_link(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	int *found = arg;

	if (nlh->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	*found = (info->ifi_flags & IFF_UP) != 0 ? OWN_LINK_UP : OWN_LINK_DOWN;
	if (strcmp(nl_text(nlh, sizeof *info, IFLA_IFALIAS), ALIAS) != 0)
		*found = -EEXIST;
	return MNL_CB_OK;
}

static int
own_link_find(struct mnl_socket *nl)
{
	char bytes[MESSAGE_MAX];
	int found = 0;
	int rc = nl_request(nl, own_link_message(bytes, RTM_GETLINK, 0), on_own_link, &found);

	return rc < 0 && rc != -ENODEV ? rc : found;
}

/* And up. The kernel takes no alias with the message that creates a link. It tells of every change
 * of the alias, also to the same: whoever marks it because it was told of that would not end. */
static int
own_link_mark(struct mnl_socket *nl)
{
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = own_link_message(bytes, RTM_NEWLINK, 0);

	mnl_attr_put_str(nlh, IFLA_IFALIAS, ALIAS);
	return nl_request(nl, nlh, NULL, NULL);
}

/* bits: of the family. No duplicates are looked for: nobody else is on this link. */
static int
own_address_change(struct mnl_socket *nl, uint16_t type, const struct in6_addr *ip, unsigned bits)
{
	const bool v4 = IN6_IS_ADDR_V4MAPPED(ip);
	const size_t skip = v4 ? sizeof *ip - sizeof(struct in_addr) : 0;
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct ifaddrmsg *ifa;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK |
		(type == RTM_NEWADDR ? NLM_F_CREATE | NLM_F_REPLACE : 0);
	nlh->nlmsg_seq = 2;
	ifa = mnl_nlmsg_put_extra_header(nlh, sizeof *ifa);
	ifa->ifa_family = v4 ? AF_INET : AF_INET6;
	ifa->ifa_prefixlen = (unsigned char)bits;
	ifa->ifa_flags = v4 ? 0 : IFA_F_NODAD;
	ifa->ifa_scope =
		RT_SCOPE_UNIVERSE; /* of link scope it would be no source for other networks */
	ifa->ifa_index = if_nametoindex(OWN_INTERFACE);
	mnl_attr_put(nlh, IFA_LOCAL, sizeof *ip - skip, ip->s6_addr + skip);
	mnl_attr_put(nlh, IFA_ADDRESS, sizeof *ip - skip, ip->s6_addr + skip);
	return nl_request(nl, nlh, NULL, NULL);
}

static int
own_addresses_set(
	struct mnl_socket *nl, uint32_t address, const struct fake6 *range, struct err *err)
{
	const struct in6_addr v4 = ip_of_v4(address), v6 = fake6_own(range);
	int rc = address != 0 ? own_address_change(nl, RTM_NEWADDR, &v4, ADDRESS_BITS) : 0;

	if (rc < 0)
		return err_set(err, rc,
			"cannot give the interface " OWN_INTERFACE " its address: %s",
			strerror(-rc));
	if (range->bits > 0)
		rc = own_address_change(nl, RTM_NEWADDR, &v6, range->bits);
	if (rc == -EACCES || rc == -EOPNOTSUPP || rc == -EAFNOSUPPORT)
		return err_set(err, rc,
			"mesh.subnet6 is set, but this node has IPv6 switched off: set the sysctl "
			"net.ipv6.conf." OWN_INTERFACE ".disable_ipv6 to 0, or leave mesh.subnet6 "
			"empty");
	return rc == 0 ? 0
		       : err_set(err, rc,
				 "cannot give the interface " OWN_INTERFACE " its IPv6 address: %s",
				 strerror(-rc));
}

int
own_interface_make(uint32_t address, const struct fake6 *range, struct err *err)
{
	auto_nl struct mnl_socket *nl = NULL;
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, err);

	if (rc < 0)
		return rc;
	rc = own_link_find(nl);
	if (rc == -EEXIST)
		return err_set(err, rc,
			"there is an interface " OWN_INTERFACE
			" that no agent has made: rename or remove it (ip link del " OWN_INTERFACE
			"), or name it in mesh.interface");
	if (rc == 0) {
		rc = own_link_set(nl, "dummy");
		if (rc == -EOPNOTSUPP)
			rc = own_link_set(nl, "bridge");
		if (rc == 0)
			rc = own_link_mark(nl);
	} else if (rc > 0) {
		rc = rc == OWN_LINK_DOWN ? own_link_mark(nl) : 0;
	}
	if (rc == -EOPNOTSUPP)
		return err_set(err, rc,
			"cannot make the interface " OWN_INTERFACE
			": the kernel has neither dummies nor bridges (modprobe dummy)");
	return rc == 0 ? own_addresses_set(nl, address, range, err)
		       : err_set(err, rc, "cannot make the interface " OWN_INTERFACE ": %s",
				 strerror(-rc));
}

int
own_interface_remove(struct err *err)
{
	char bytes[MESSAGE_MAX];
	auto_nl struct mnl_socket *nl = NULL;
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, err);

	if (rc == 0)
		rc = own_link_find(nl);
	if (rc > 0)
		rc = nl_request(nl, own_link_message(bytes, RTM_DELLINK, 0), NULL, NULL);
	if (rc == 0 || rc == -ENODEV || rc == -EEXIST)
		return 0;
	return err_set(err, rc, "cannot remove the interface " OWN_INTERFACE ": %s", strerror(-rc));
}

/* The addresses of a link of this name. */
static size_t
own_addresses_list(struct buf *list, const struct iface_network **all)
{
	const int index = (int)if_nametoindex(OWN_INTERFACE);
	struct iface_network *n;
	size_t kept = 0;

	buf_init(list, BUF_UNLIMITED);
	if (index == 0 || iface_networks(list) < 0)
		return 0;
	*all = n = (void *)buf_at(list);
	for (size_t i = 0; i < buf_len(list) / sizeof *n; i++)
		if (n[i].index == index)
			n[kept++] = n[i];
	return kept;
}

bool
own_interface_has(const struct in6_addr *ip)
{
	auto_buf struct buf list;
	const struct iface_network *all;
	size_t n = own_addresses_list(&list, &all);
	bool has = false;

	for (size_t i = 0; i < n && !has; i++)
		has = ip_same(&all[i].address, ip);
	return has;
}

/* The addresses of this family but `kept`. */
static void
own_addresses_drop(bool v4, const struct in6_addr *kept)
{
	auto_buf struct buf list;
	auto_nl struct mnl_socket *nl = NULL;
	const struct iface_network *all;
	size_t n = own_addresses_list(&list, &all);

	if (n == 0 || nl_open(&nl, NETLINK_ROUTE, 0, NULL) < 0 || own_link_find(nl) <= 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct in6_addr *ip = &all[i].address;

		if (IN6_IS_ADDR_V4MAPPED(ip) == v4 && !IN6_IS_ADDR_LINKLOCAL(ip) &&
			!ip_same(ip, kept))
			(void)own_address_change(
				nl, RTM_DELADDR, ip, all[i].bits - (v4 ? 128 - ADDRESS_BITS : 0));
	}
}

void
own_interface_tidy(const struct fake6 *range)
{
	const struct in6_addr own = fake6_own(range);

	own_addresses_drop(false, &own);
}

void
own_interface_tidy4(uint32_t address)
{
	const struct in6_addr own = ip_of_v4(address);

	own_addresses_drop(true, &own);
}
