#include "iptables/host/iface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "iptables/table/netlink.h"

enum { RETRY_MS = 1000 };

struct iface {
	char name[IFNAMSIZ];
	iface_fn *fn;
	void *arg;
	struct mnl_socket *events;
	struct watch *watch;
	const char *const *globs; /* NULL: none */
	struct timer *soon; /* first report, and retry after a failed query */
	int index; /* in the last report */
	bool concerned; /* a message in this batch is about our interface */
};

static int
on_link(const struct nlmsghdr *nlh, void *arg)
{
	struct iface_state *s = arg;
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	s->index = info->ifi_index;
	s->up = (info->ifi_flags & IFF_UP) != 0;
	return MNL_CB_OK;
}

/* The machine's own address in a message; :: none. IPv6 has no IFA_LOCAL, unless there is a
 * peer. */
static struct in6_addr
iface_ip(const struct nlmsghdr *nlh)
{
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *a = nl_attr(nlh, sizeof *ifa, IFA_LOCAL);
	struct in6_addr ip = {0};

	if (ifa->ifa_family == AF_INET)
		return ip_of_v4(ntohl(nl_u32(nlh, sizeof *ifa, IFA_LOCAL)));
	if (a == NULL)
		a = nl_attr(nlh, sizeof *ifa, IFA_ADDRESS);
	if (a != NULL && mnl_attr_get_payload_len(a) == sizeof ip)
		memcpy(&ip, mnl_attr_get_payload(a), sizeof ip);
	return ip;
}

static int
on_addr(const struct nlmsghdr *nlh, void *arg)
{
	struct iface_state *s = arg;
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
	struct in6_addr ip = iface_ip(nlh);

	if (nlh->nlmsg_type == RTM_NEWADDR && (int)ifa->ifa_index == s->index &&
		ifa->ifa_family == AF_INET && s->address == 0 &&
		(ifa->ifa_flags & IFA_F_SECONDARY) == 0 && ifa->ifa_scope != RT_SCOPE_HOST)
		s->address = ip_to_v4(&ip);
	return MNL_CB_OK;
}

static int
query_link(struct mnl_socket *nl, const char *name, struct iface_state *s)
{
	char bytes[256];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	int rc;

	nlh->nlmsg_type = RTM_GETLINK;
	/* The acknowledgement marks the end: a single answer is not a multi-part message. */
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	nlh->nlmsg_seq = 1;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, name);
	rc = nl_request(nl, nlh, on_link, s);
	return rc == -ENODEV ? 0 : rc;
}

static int
dump_addresses(struct mnl_socket *nl, mnl_cb_t fn, void *arg)
{
	char bytes[256];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct ifaddrmsg *ifa;

	nlh->nlmsg_type = RTM_GETADDR;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = 2;
	ifa = mnl_nlmsg_put_extra_header(nlh, sizeof *ifa);
	ifa->ifa_family = AF_UNSPEC;
	return nl_request(nl, nlh, fn, arg);
}

static int
iface_query(const char *name, struct iface_state *s)
{
	auto_nl struct mnl_socket *nl = NULL;
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, NULL);

	*s = (struct iface_state){0};
	if (rc == 0)
		rc = query_link(nl, name, s);
	if (rc == 0 && s->index != 0)
		rc = dump_addresses(nl, on_addr, s);
	return rc;
}

static int
on_any_addr(const struct nlmsghdr *nlh, void *arg)
{
	struct in6_addr ip = iface_ip(nlh);

	if (nlh->nlmsg_type == RTM_NEWADDR)
		buf_add(arg, &ip, sizeof ip);
	return MNL_CB_OK;
}

static int
iface_by_number(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct in6_addr));
}

static int
on_network(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
	const struct iface_network n = {.address = iface_ip(nlh),
		.bits = ifa->ifa_prefixlen + (ifa->ifa_family == AF_INET ? 96u : 0u),
		.index = (int)ifa->ifa_index};

	if (nlh->nlmsg_type == RTM_NEWADDR)
		buf_add(arg, &n, sizeof n);
	return MNL_CB_OK;
}

int
iface_networks(struct buf *out)
{
	auto_nl struct mnl_socket *nl = NULL;
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, NULL);

	return rc < 0 ? rc : dump_addresses(nl, on_network, out);
}

int
iface_addresses(struct buf *out)
{
	auto_nl struct mnl_socket *nl = NULL;
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, NULL);

	if (rc == 0)
		rc = dump_addresses(nl, on_any_addr, out);
	if (buf_len(out) > 0)
		qsort(buf_at(out), buf_len(out) / sizeof(struct in6_addr), sizeof(struct in6_addr),
			iface_by_number);
	return rc;
}

bool
iface_addresses_have(const struct buf *addresses, const struct in6_addr *ip)
{
	return buf_len(addresses) > 0 &&
		bsearch(ip, buf_at(addresses), buf_len(addresses) / sizeof *ip, sizeof *ip,
			iface_by_number) != NULL;
}

static void
iface_report(void *arg)
{
	static struct log_limit limit;
	struct iface *f = arg;
	struct iface_state s;
	int rc = iface_query(f->name, &s);

	if (rc < 0) {
		if (log_limit_pass(&limit, 6, "iptables"))
			log_warn("iptables",
				"cannot read the state of the interface, trying again interface=%s "
				"error=%s",
				f->name, strerror(-rc));
		timer_start(f->soon, RETRY_MS, 0);
		return;
	}
	f->index = s.index;
	f->fn(f->arg, &s);
}

static bool
link_is_ours(const struct iface *f, const struct nlmsghdr *nlh)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	const char *name = nl_text(nlh, sizeof *info, IFLA_IFNAME);

	for (const char *const *glob = f->globs; glob != NULL && *glob != NULL; glob++)
		if (fnmatch(*glob, name, 0) == 0)
			return true;
	return info->ifi_index == f->index || strcmp(name, f->name) == 0;
}

static int
on_event(const struct nlmsghdr *nlh, void *arg)
{
	struct iface *f = arg;
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type == RTM_NEWLINK || nlh->nlmsg_type == RTM_DELLINK)
		f->concerned |= link_is_ours(f, nlh);
	else if (nlh->nlmsg_type == RTM_NEWADDR || nlh->nlmsg_type == RTM_DELADDR)
		f->concerned |= (int)ifa->ifa_index == f->index;
	else if (nlh->nlmsg_type == RTM_DELROUTE)
		f->concerned |= (int)nl_u32(nlh, sizeof(struct rtmsg), RTA_OIF) == f->index;
	return MNL_CB_OK;
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct iface *f = arg;

	(void)fd;
	if (events & WATCH_HUP)
		watch_renew(f->watch);
	f->concerned = false;
	if (nl_drain(f->events, on_event, f) < 0 || f->concerned)
		iface_report(f);
}

int
iface_start(struct iface **out, struct loop *loop, const char *name, iface_fn *fn, void *arg,
	struct err *err)
{
	struct iface *f;
	struct mnl_socket *events;
	int rc;

	if (strlen(name) >= IFNAMSIZ)
		return err_set(
			err, EINVAL, "\"%s\" is too long for the name of an interface", name);
	rc = nl_open(&events, NETLINK_ROUTE,
		RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE, err);
	if (rc < 0)
		return rc;
	f = xcalloc(1, sizeof *f);
	strcpy(f->name, name);
	f->fn = fn;
	f->arg = arg;
	f->events = events;
	f->watch = watch_start(loop, mnl_socket_get_fd(events), WATCH_READ, on_ready, f);
	f->soon = timer_new(loop, iface_report, f);
	timer_start(f->soon, 0, 0);
	*out = f;
	return 0;
}

void
iface_follow(struct iface *f, const char *const *globs)
{
	f->globs = globs;
}

struct iface_search {
	const char *glob;
	struct buf *names;
};

static int
on_any_link(const struct nlmsghdr *nlh, void *arg)
{
	struct iface_search *search = arg;
	const char *name = nl_text(nlh, sizeof(struct ifinfomsg), IFLA_IFNAME);

	if (nlh->nlmsg_type == RTM_NEWLINK && fnmatch(search->glob, name, 0) == 0)
		buf_add(search->names, name, strlen(name) + 1);
	return MNL_CB_OK;
}

int
iface_match(const char *glob, struct buf *names)
{
	char bytes[256];
	auto_nl struct mnl_socket *nl = NULL;
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct iface_search search = {glob, names};
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, NULL);

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = 1;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	return rc < 0 ? rc : nl_request(nl, nlh, on_any_link, &search);
}

void
iface_stop(struct iface **out)
{
	struct iface *f = take_ptr(out);

	if (f == NULL)
		return;
	watch_stop(&f->watch);
	timer_free(&f->soon);
	nl_close(&f->events);
	free(f);
}
