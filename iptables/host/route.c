#include "iptables/host/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "iptables/table/netlink.h"
#include "model/pod_ranges.h"

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

/* --- whose addresses are routed ------------------------------------------------------------- */

static int
route_on_route(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
	uint32_t host = rtm->rtm_dst_len >= 32 ? 0 : UINT32_MAX >> rtm->rtm_dst_len;
	const struct nlattr *to = nl_attr(nlh, sizeof *rtm, RTA_DST);
	uint32_t first;

	if (rtm->rtm_family != AF_INET || rtm->rtm_dst_len == 0 || to == NULL ||
		mnl_attr_get_payload_len(to) != sizeof first)
		return MNL_CB_OK;
	memcpy(&first, mnl_attr_get_payload(to), sizeof first);
	first = ntohl(first) & ~host;
	pod_ranges_subtract(arg, first, first | host);
	return MNL_CB_OK;
}

int
route_subtract(struct pod_ranges *ranges, struct err *err)
{
	auto_nl struct mnl_socket *nl = NULL;
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct rtmsg *rtm = mnl_nlmsg_put_extra_header(nlh, sizeof *rtm);
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, err);

	nlh->nlmsg_type = RTM_GETROUTE;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = 1;
	rtm->rtm_family = AF_INET;
	if (rc == 0 && (rc = nl_request(nl, nlh, route_on_route, ranges)) < 0)
		err_set(err, rc, "cannot read the routes: %s", strerror(-rc));
	return rc;
}
