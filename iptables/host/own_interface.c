#include "iptables/host/own_interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include "base/core/sock.h"
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

/* 1: it is there and ours; 0: there is none; -EEXIST: it is somebody else's. */
static int
on_own_link(const struct nlmsghdr *nlh, void *arg)
{
	int *found = arg;

	if (nlh->nlmsg_type == RTM_NEWLINK)
		*found = strcmp(nl_text(nlh, sizeof(struct ifinfomsg), IFLA_IFALIAS), ALIAS) == 0
			? 1
			: -EEXIST;
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

/* The kernel takes no alias with the message that creates a link. */
static int
own_link_mark(struct mnl_socket *nl)
{
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = own_link_message(bytes, RTM_NEWLINK, 0);

	mnl_attr_put_str(nlh, IFLA_IFALIAS, ALIAS);
	return nl_request(nl, nlh, NULL, NULL);
}

/* No duplicates are looked for: nobody else is on this link. */
static int
own_address_set(struct mnl_socket *nl, const struct in6_addr *ip, unsigned bits)
{
	const bool v4 = IN6_IS_ADDR_V4MAPPED(ip);
	const size_t skip = v4 ? sizeof *ip - sizeof(struct in_addr) : 0;
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct ifaddrmsg *ifa;

	nlh->nlmsg_type = RTM_NEWADDR;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
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
	int rc = address != 0 ? own_address_set(nl, &v4, ADDRESS_BITS) : 0;

	if (rc < 0)
		return err_set(err, rc,
			"cannot give the interface " OWN_INTERFACE " its address: %s",
			strerror(-rc));
	if (range->bits > 0)
		rc = own_address_set(nl, &v6, range->bits);
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
		rc = own_link_mark(nl); /* and up */
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

bool
own_interface_has(const struct in6_addr *ip)
{
	struct ifaddrs *all = NULL;
	bool has = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *i = all; i != NULL && !has; i = i->ifa_next) {
		struct addr at = {.len = 0};
		struct in6_addr own;

		if (i->ifa_addr == NULL || strcmp(i->ifa_name, OWN_INTERFACE) != 0)
			continue;
		memcpy(&at.sa, i->ifa_addr,
			i->ifa_addr->sa_family == AF_INET6 ? sizeof at.in6 : sizeof at.in);
		has = addr_ip(&at, &own) && ip_same(&own, ip);
	}
	freeifaddrs(all);
	return has;
}
