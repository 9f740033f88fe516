#include "iptables/host/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "iptables/table/netlink.h"

enum { MESSAGE_MAX = 256 };

static struct nlmsghdr *
route_message(char *bytes, uint16_t type, uint16_t flags, uint32_t subnet, uint32_t mask)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct rtmsg *rtm;

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
	nlh->nlmsg_seq = 1;
	rtm = mnl_nlmsg_put_extra_header(nlh, sizeof *rtm);
	rtm->rtm_family = AF_INET;
	rtm->rtm_dst_len = (unsigned char)__builtin_popcount(mask);
	rtm->rtm_table = RT_TABLE_MAIN;
	rtm->rtm_protocol = RTPROT_STATIC;
	rtm->rtm_type = RTN_UNICAST;
	rtm->rtm_scope = RT_SCOPE_LINK;
	mnl_attr_put_u32(nlh, RTA_DST, htonl(subnet));
	return nlh;
}

static int
send_route(struct nlmsghdr *nlh, struct err *err)
{
	auto_nl struct mnl_socket *nl = NULL;
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, err);

	return rc < 0 ? rc : nl_request(nl, nlh, NULL, NULL);
}

int
route_set(const struct route *r, struct err *err)
{
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh;
	int rc;

	nlh = route_message(bytes, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, r->subnet, r->mask);
	mnl_attr_put_u32(nlh, RTA_OIF, (uint32_t)r->ifindex);
	mnl_attr_put_u32(nlh, RTA_PREFSRC, htonl(r->source));
	rc = send_route(nlh, err);
	if (rc == -EPERM)
		return err_set(
			err, rc, "cannot set the route to the fake range: needs CAP_NET_ADMIN");
	return rc == 0
		? 0
		: err_set(err, rc, "cannot set the route to the fake range: %s", strerror(-rc));
}

int
route_remove(uint32_t subnet, uint32_t mask, struct err *err)
{
	char bytes[MESSAGE_MAX];
	int rc = send_route(route_message(bytes, RTM_DELROUTE, 0, subnet, mask), err);

	if (rc == 0 || rc == -ESRCH)
		return 0;
	return err_set(err, rc, "cannot remove the route to the fake range: %s", strerror(-rc));
}
