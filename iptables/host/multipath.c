#include "iptables/host/multipath.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/genetlink.h>
#include <linux/mptcp.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include "base/core/sock.h"
#include "iptables/table/netlink.h"

enum {
	MULTIPATH_MESSAGE = 512,
	MULTIPATH_IDS = 256,
};

/* An uplink, or an endpoint of the path manager. */
struct path {
	struct in6_addr ip;
	int ifindex;
	uint8_t id;
	bool backup; /* carries data only while no other path does */
};

struct paths {
	struct path list[MULTIPATH_IDS];
	size_t n;
};

/* --- uplinks -------------------------------------------------------------------------------- */

struct uplinks {
	int ifindex[MULTIPATH_MOST];
	/* the lowest of its default routes, of IPv4 and IPv6; UINT32_MAX: no route */
	uint32_t metric[MULTIPATH_MOST][2];
	int n;
};

static void
uplinks_add(struct uplinks *u, int oif, bool six, uint32_t metric)
{
	int i = 0;

	while (i < u->n && u->ifindex[i] != oif)
		i++;
	if (oif == 0 || i == MULTIPATH_MOST)
		return;
	if (i == u->n) {
		u->ifindex[u->n++] = oif;
		u->metric[i][0] = u->metric[i][1] = UINT32_MAX;
	}
	u->metric[i][six] = MIN(u->metric[i][six], metric);
}

/* Another uplink is preferred to this one. With equal metrics all carry data. */
static bool
uplinks_is_backup(const struct uplinks *u, int nth, bool six)
{
	for (int i = 0; i < u->n; i++)
		if (u->metric[i][six] < u->metric[nth][six])
			return true;
	return false;
}

static int
multipath_on_route(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
	struct uplinks *u = arg;
	const struct nlattr *several = nl_attr(nlh, sizeof *rtm, RTA_MULTIPATH);
	const bool six = rtm->rtm_family == AF_INET6;
	const uint32_t metric = nl_u32(nlh, sizeof *rtm, RTA_PRIORITY);
	struct rtnexthop *hop;
	int left;

	if (rtm->rtm_dst_len != 0 || rtm->rtm_type != RTN_UNICAST ||
		rtm->rtm_table != RT_TABLE_MAIN)
		return MNL_CB_OK;
	uplinks_add(u, (int)nl_u32(nlh, sizeof *rtm, RTA_OIF), six, metric);
	if (several == NULL)
		return MNL_CB_OK;
	hop = mnl_attr_get_payload(several);
	left = mnl_attr_get_payload_len(several);
	for (; RTNH_OK(hop, left); hop = RTNH_NEXT(hop)) {
		uplinks_add(u, hop->rtnh_ifindex, six, metric);
		left -= RTNH_ALIGN(hop->rtnh_len);
	}
	return MNL_CB_OK;
}

static int
multipath_uplinks(struct uplinks *u, struct err *err)
{
	static const unsigned char families[] = {AF_INET, AF_INET6};
	auto_nl struct mnl_socket *nl = NULL;
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, err);

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(families); i++) {
		char bytes[MULTIPATH_MESSAGE];
		struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
		struct rtmsg *rtm = mnl_nlmsg_put_extra_header(nlh, sizeof *rtm);

		nlh->nlmsg_type = RTM_GETROUTE;
		nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
		rtm->rtm_family = families[i];
		rc = nl_request(nl, nlh, multipath_on_route, u);
		if (rc < 0)
			return err_set(err, rc, "cannot read the routes: %s", strerror(-rc));
	}
	return rc;
}

/* The addresses that this machine has. */
static void
multipath_own(struct paths *to)
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
		struct addr addr = {0};

		if (a->ifa_addr == NULL || to->n == ARRAY_LEN(to->list))
			continue;
		memcpy(&addr, a->ifa_addr,
			a->ifa_addr->sa_family == AF_INET6 ? sizeof addr.in6 : sizeof addr.in);
		if (addr_ip(&addr, &to->list[to->n].ip))
			to->n++;
	}
	freeifaddrs(all);
}

/* The addresses from which the uplinks send: the first of each family. */
static void
multipath_addresses(const struct uplinks *u, struct paths *to)
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return;
	for (int i = 0; i < u->n; i++) {
		char name[IF_NAMESIZE] = "";
		bool has[2] = {false};

		if (if_indextoname((unsigned)u->ifindex[i], name) == NULL)
			continue;
		for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
			struct addr addr = {0};
			struct path *p = &to->list[to->n];
			bool six;

			if (a->ifa_addr == NULL || strcmp(a->ifa_name, name) != 0)
				continue;
			six = a->ifa_addr->sa_family == AF_INET6;
			if (!six && a->ifa_addr->sa_family != AF_INET)
				continue;
			memcpy(&addr, a->ifa_addr, six ? sizeof addr.in6 : sizeof addr.in);
			if (!addr_ip(&addr, &p->ip) || IN6_IS_ADDR_LINKLOCAL(&p->ip) || has[six])
				continue;
			has[six] = true;
			p->ifindex = u->ifindex[i];
			p->backup = uplinks_is_backup(u, i, six);
			to->n++;
		}
	}
	freeifaddrs(all);
}

/* --- the path manager ----------------------------------------------------------------------- */

static int
multipath_on_family(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *a = nl_attr(nlh, sizeof(struct genlmsghdr), CTRL_ATTR_FAMILY_ID);

	if (a != NULL && mnl_attr_get_payload_len(a) >= sizeof(uint16_t))
		*(uint16_t *)arg = mnl_attr_get_u16(a);
	return MNL_CB_OK;
}

static struct nlmsghdr *
multipath_message(char *bytes, uint16_t family, uint8_t command, uint8_t version, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct genlmsghdr *g;

	nlh->nlmsg_type = family;
	nlh->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	nlh->nlmsg_seq = 1;
	g = mnl_nlmsg_put_extra_header(nlh, sizeof *g);
	g->cmd = command;
	g->version = version;
	return nlh;
}

static int
multipath_open(struct mnl_socket **nl, uint16_t *family, struct err *err)
{
	char bytes[MULTIPATH_MESSAGE];
	struct nlmsghdr *nlh =
		multipath_message(bytes, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1, NLM_F_ACK);
	int rc = nl_open(nl, NETLINK_GENERIC, 0, err);

	if (rc < 0)
		return rc;
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, MPTCP_PM_NAME);
	*family = 0;
	rc = nl_request(*nl, nlh, multipath_on_family, family);
	return rc == 0 && *family != 0
		? 0
		: err_set(err, EOPNOTSUPP, "this kernel has no MPTCP (CONFIG_MPTCP)");
}

static int
multipath_on_endpoint(const struct nlmsghdr *nlh, void *arg)
{
	const struct nlattr *nest = nl_attr(nlh, sizeof(struct genlmsghdr), MPTCP_PM_ATTR_ADDR), *a;
	struct paths *to = arg;
	struct path *p = &to->list[to->n];

	if (nest == NULL || to->n == ARRAY_LEN(to->list))
		return MNL_CB_OK;
	*p = (struct path){0};
	a = nl_nested(nest, MPTCP_PM_ADDR_ATTR_ID);
	if (a != NULL)
		p->id = mnl_attr_get_u8(a);
	a = nl_nested(nest, MPTCP_PM_ADDR_ATTR_FLAGS);
	p->backup = a != NULL && (mnl_attr_get_u32(a) & MPTCP_PM_ADDR_FLAG_BACKUP) != 0;
	a = nl_nested(nest, MPTCP_PM_ADDR_ATTR_IF_IDX);
	if (a != NULL)
		p->ifindex = (int)mnl_attr_get_u32(a);
	a = nl_nested(nest, MPTCP_PM_ADDR_ATTR_ADDR4);
	if (a != NULL && mnl_attr_get_payload_len(a) == sizeof(struct in_addr)) {
		p->ip = ip_of_v4(ntohl(mnl_attr_get_u32(a)));
		to->n++;
		return MNL_CB_OK;
	}
	a = nl_nested(nest, MPTCP_PM_ADDR_ATTR_ADDR6);
	if (a == NULL || mnl_attr_get_payload_len(a) != sizeof p->ip)
		return MNL_CB_OK;
	memcpy(&p->ip, mnl_attr_get_payload(a), sizeof p->ip);
	to->n++;
	return MNL_CB_OK;
}

static int
multipath_endpoints(struct mnl_socket *nl, uint16_t family, struct paths *to)
{
	char bytes[MULTIPATH_MESSAGE];

	return nl_request(nl,
		multipath_message(bytes, family, MPTCP_PM_CMD_GET_ADDR, MPTCP_PM_VER, NLM_F_DUMP),
		multipath_on_endpoint, to);
}

static int
multipath_change(struct mnl_socket *nl, uint16_t family, uint8_t command, const struct path *p)
{
	char bytes[MULTIPATH_MESSAGE];
	struct nlmsghdr *nlh = multipath_message(bytes, family, command, MPTCP_PM_VER, NLM_F_ACK);
	struct nlattr *nest = mnl_attr_nest_start(nlh, MPTCP_PM_ATTR_ADDR);
	const bool six = !IN6_IS_ADDR_V4MAPPED(&p->ip);

	mnl_attr_put_u16(nlh, MPTCP_PM_ADDR_ATTR_FAMILY, six ? AF_INET6 : AF_INET);
	mnl_attr_put_u8(nlh, MPTCP_PM_ADDR_ATTR_ID, p->id);
	if (six)
		mnl_attr_put(nlh, MPTCP_PM_ADDR_ATTR_ADDR6, sizeof p->ip, &p->ip);
	else
		mnl_attr_put_u32(nlh, MPTCP_PM_ADDR_ATTR_ADDR4, htonl(ip_to_v4(&p->ip)));
	mnl_attr_put_u32(nlh, MPTCP_PM_ADDR_ATTR_FLAGS,
		MPTCP_PM_ADDR_FLAG_SUBFLOW | (p->backup ? MPTCP_PM_ADDR_FLAG_BACKUP : 0));
	/* so that the route of this interface is taken, though another one is preferred */
	mnl_attr_put_u32(nlh, MPTCP_PM_ADDR_ATTR_IF_IDX, (uint32_t)p->ifindex);
	mnl_attr_nest_end(nlh, nest);
	return nl_request(nl, nlh, NULL, NULL);
}

static const struct path *
multipath_find(const struct paths *in, const struct in6_addr *ip)
{
	for (size_t i = 0; i < in->n; i++)
		if (ip_same(&in->list[i].ip, ip))
			return &in->list[i];
	return NULL;
}

static int
multipath_failed(int rc, struct err *err)
{
	return rc >= 0 ? rc
		       : err_set(err, rc, "cannot announce the uplinks to MPTCP: %s%s",
				 strerror(-rc), rc == -EPERM ? " (needs CAP_NET_ADMIN)" : "");
}

/* Has the kernel know these, and of ours no others; not add: those of them that it knows. */
static int
multipath_set(const struct paths *want, bool add, struct err *err)
{
	auto_nl struct mnl_socket *nl = NULL;
	bool used[MULTIPATH_IDS] = {false};
	struct paths has = {0};
	uint16_t family;
	unsigned id = MULTIPATH_FIRST_ID;
	int rc = multipath_open(&nl, &family, err);

	if (rc < 0)
		return rc;
	rc = multipath_endpoints(nl, family, &has);
	for (size_t i = 0; rc == 0 && i < has.n; i++) {
		const struct path *p = &has.list[i];

		used[p->id] = true;
		if (p->id < MULTIPATH_FIRST_ID || multipath_find(want, &p->ip) != NULL)
			continue;
		rc = multipath_change(nl, family, MPTCP_PM_CMD_DEL_ADDR, p);
		used[p->id] = rc < 0;
	}
	for (size_t i = 0; rc == 0 && add && i < want->n; i++) {
		const struct path *is = multipath_find(&has, &want->list[i].ip);
		struct path p = want->list[i];

		if (is != NULL) {
			p.id = is->id;
			if (p.id >= MULTIPATH_FIRST_ID && p.backup != is->backup)
				rc = multipath_change(nl, family, MPTCP_PM_CMD_SET_FLAGS, &p);
			continue;
		}
		while (id < MULTIPATH_IDS - 1 && used[id])
			id++;
		p.id = (uint8_t)id++;
		rc = multipath_change(nl, family, MPTCP_PM_CMD_ADD_ADDR, &p);
	}
	return multipath_failed(rc, err);
}

int
multipath_renew(bool (*is_lost)(void *arg, const struct in6_addr *ip), void *arg, struct err *err)
{
	auto_nl struct mnl_socket *nl = NULL;
	struct paths has = {0};
	uint16_t family;
	int rc = multipath_open(&nl, &family, err), n = 0;

	if (rc < 0)
		return rc;
	rc = multipath_endpoints(nl, family, &has);
	for (size_t i = 0; rc == 0 && i < has.n; i++) {
		const struct path *p = &has.list[i];

		if (p->id < MULTIPATH_FIRST_ID || !is_lost(arg, &p->ip))
			continue;
		rc = multipath_change(nl, family, MPTCP_PM_CMD_DEL_ADDR, p);
		if (rc == 0)
			rc = multipath_change(nl, family, MPTCP_PM_CMD_ADD_ADDR, p);
		n++;
	}
	return rc == 0 ? n : multipath_failed(rc, err);
}

int
multipath_announce(bool kept, struct err *err)
{
	struct uplinks u = {.n = 0};
	struct paths want = {0};
	int rc = multipath_uplinks(&u, err);

	if (rc == 0 && u.n > 1)
		multipath_addresses(&u, &want);
	else if (rc == 0 && kept)
		multipath_own(&want);
	if (rc == 0)
		rc = multipath_set(&want, u.n > 1, err);
	return rc < 0 ? rc : u.n;
}

void
multipath_withdraw(void)
{
	const struct paths none = {0};
	struct err err;

	(void)multipath_set(&none, false, &err);
}
