#include "iptables/table/netlink.h"

#include <errno.h>
#include <string.h>

int
nl_open(struct mnl_socket **out, int bus, uint32_t groups, struct err *err)
{
	const int room = 1 << 21;
	struct mnl_socket *nl = mnl_socket_open2(bus, SOCK_NONBLOCK | SOCK_CLOEXEC);
	int rc, fd;

	if (nl == NULL)
		return err_set(err, errno, "netlink socket: %s%s", strerror(errno),
			errno == EAFNOSUPPORT
				? "; under systemd RestrictAddressFamilies must have AF_NETLINK"
				: "");
	if (mnl_socket_bind(nl, groups, MNL_SOCKET_AUTOPID) < 0) {
		rc = errno == EPERM
			? err_set(err, errno,
				  "cannot follow the kernel's changes: needs CAP_NET_ADMIN")
			: err_set(err, errno, "bind a netlink socket: %s", strerror(errno));
		mnl_socket_close(nl);
		return rc;
	}
	/* Another program's ruleset of some thousand rules, or the acknowledgements of a batch,
	 * must not overflow the queue; without the capability the default sizes stay. */
	fd = mnl_socket_get_fd(nl);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
	*out = nl;
	return 0;
}

void
nl_close(struct mnl_socket **nl)
{
	struct mnl_socket *old = take_ptr(nl);

	if (old != NULL)
		mnl_socket_close(old);
}

/* Discards what an earlier exchange left unread (after its first error), so that it does not answer
 * this one. */
static void
netlink_discard(struct mnl_socket *nl)
{
	char bytes[4096];

	while (mnl_socket_recvfrom(nl, bytes, sizeof bytes) >= 0 || errno == ENOSPC)
		continue;
}

int
nl_request(struct mnl_socket *nl, struct nlmsghdr *nlh, mnl_cb_t fn, void *arg)
{
	auto_free char *bytes = xmalloc(NL_READ_BYTES);
	uint32_t seq = nlh->nlmsg_seq, port = mnl_socket_get_portid(nl);
	int rc = MNL_CB_OK;

	netlink_discard(nl);
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	while (rc == MNL_CB_OK) {
		ssize_t n = mnl_socket_recvfrom(nl, bytes, NL_READ_BYTES);

		if (n < 0)
			return errno == EAGAIN ? -EPROTO : -errno;
		rc = mnl_cb_run(bytes, (size_t)n, seq, port, fn, arg);
	}
	return rc < 0 ? -errno : 0;
}

struct acks {
	unsigned got;
	int first, other; /* errors: the first, and the first other than -ENOENT */
};

static void
count_acks(struct acks *a, const char *bytes, int n)
{
	const struct nlmsghdr *nlh = (const void *)bytes;

	for (; mnl_nlmsg_ok(nlh, n); nlh = mnl_nlmsg_next(nlh, &n)) {
		const struct nlmsgerr *e = mnl_nlmsg_get_payload(nlh);

		if (nlh->nlmsg_type != NLMSG_ERROR || mnl_nlmsg_get_payload_len(nlh) < sizeof *e)
			continue;
		a->got++;
		if (a->first == 0)
			a->first = e->error;
		if (e->error != -ENOENT && a->other == 0)
			a->other = e->error;
	}
}

/* Returns 0 when all replies were read, whatever their result. */
static int
netlink_exchange(struct mnl_socket *nl, const void *bytes, size_t len, struct acks *a)
{
	auto_free char *reply = xmalloc(NL_READ_BYTES);
	ssize_t n;

	netlink_discard(nl);
	if (mnl_socket_sendto(nl, bytes, len) < 0)
		return -errno;
	while ((n = mnl_socket_recvfrom(nl, reply, NL_READ_BYTES)) > 0)
		count_acks(a, reply, (int)n);
	return n < 0 && errno != EAGAIN ? -errno : 0;
}

int
nl_batch(struct mnl_socket *nl, const void *bytes, size_t len, unsigned acks)
{
	struct acks a = {0};
	int rc = netlink_exchange(nl, bytes, len, &a);

	if (a.first != 0)
		return a.first;
	if (rc < 0)
		return rc;
	return a.got == acks ? 0 : -EPROTO;
}

int
nl_messages(struct mnl_socket *nl, const void *bytes, size_t len)
{
	struct acks a = {0};
	int rc = netlink_exchange(nl, bytes, len, &a);

	return a.other != 0 ? a.other : rc;
}

int
nl_drain(struct mnl_socket *nl, mnl_cb_t fn, void *arg)
{
	auto_free char *bytes = xmalloc(NL_READ_BYTES);
	int lost = 0;

	for (;;) {
		ssize_t n = mnl_socket_recvfrom(nl, bytes, NL_READ_BYTES);

		if (n < 0 && (errno == ENOBUFS || errno == ENOSPC)) {
			lost = -ENOBUFS;
			continue;
		}
		if (n < 0)
			return lost;
		mnl_cb_run(bytes, (size_t)n, 0, 0, fn, arg);
	}
}

struct wanted {
	uint16_t type;
	const struct nlattr *found;
};

static int
on_attr(const struct nlattr *attr, void *arg)
{
	struct wanted *w = arg;

	if (mnl_attr_get_type(attr) != w->type)
		return MNL_CB_OK;
	w->found = attr;
	return MNL_CB_STOP;
}

const struct nlattr *
nl_attr(const struct nlmsghdr *nlh, unsigned offset, uint16_t type)
{
	struct wanted w = {.type = type};

	mnl_attr_parse(nlh, offset, on_attr, &w);
	return w.found;
}

const struct nlattr *
nl_nested(const struct nlattr *nest, uint16_t type)
{
	struct wanted w = {.type = type};

	mnl_attr_parse_nested(nest, on_attr, &w);
	return w.found;
}

const char *
nl_text(const struct nlmsghdr *nlh, unsigned offset, uint16_t type)
{
	const struct nlattr *a = nl_attr(nlh, offset, type);

	if (a == NULL || mnl_attr_validate(a, MNL_TYPE_NUL_STRING) < 0)
		return "";
	return mnl_attr_get_str(a);
}

uint32_t
nl_u32(const struct nlmsghdr *nlh, unsigned offset, uint16_t type)
{
	const struct nlattr *a = nl_attr(nlh, offset, type);

	if (a == NULL || mnl_attr_get_payload_len(a) != sizeof(uint32_t))
		return 0;
	return mnl_attr_get_u32(a);
}
