#include "iptables/host/own_interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include "iptables/table/netlink.h"

enum { MESSAGE_MAX = 256, ADDRESS_BITS = 32 };

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

/* NLM_F_CREATE without NLM_F_EXCL: one that exists is set up, whatever its kind. */
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

static int
own_address_set(struct mnl_socket *nl, uint32_t address)
{
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct ifaddrmsg *ifa;

	nlh->nlmsg_type = RTM_NEWADDR;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
	nlh->nlmsg_seq = 2;
	ifa = mnl_nlmsg_put_extra_header(nlh, sizeof *ifa);
	ifa->ifa_family = AF_INET;
	ifa->ifa_prefixlen = ADDRESS_BITS;
	ifa->ifa_scope =
		RT_SCOPE_UNIVERSE; /* of link scope it would be no source for other networks */
	ifa->ifa_index = if_nametoindex(OWN_INTERFACE);
	mnl_attr_put_u32(nlh, IFA_LOCAL, htonl(address));
	mnl_attr_put_u32(nlh, IFA_ADDRESS, htonl(address));
	return nl_request(nl, nlh, NULL, NULL);
}

int
own_interface_make(uint32_t address, struct err *err)
{
	auto_nl struct mnl_socket *nl = NULL;
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, err);

	if (rc < 0)
		return rc;
	rc = own_link_set(nl, "dummy");
	if (rc == -EOPNOTSUPP)
		rc = own_link_set(nl, "bridge");
	if (rc == -EOPNOTSUPP)
		return err_set(err, rc,
			"cannot make the interface " OWN_INTERFACE
			": the kernel has neither dummies nor bridges (modprobe dummy)");
	if (rc == 0)
		rc = own_address_set(nl, address);
	return rc == 0 ? 0
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
		rc = nl_request(nl, own_link_message(bytes, RTM_DELLINK, 0), NULL, NULL);
	if (rc == 0 || rc == -ENODEV)
		return 0;
	return err_set(err, rc, "cannot remove the interface " OWN_INTERFACE ": %s", strerror(-rc));
}
