#include "src/ctl/ctl_pods.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <resolv.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/ctl/ctl_within.h"

enum {
	MESSAGE_BYTES = 32768,
	NETWORKS_MAX = 1024,
	SEEN_MAX = 4096,
	RESOLV_CONF_MOST = 64 << 10,
	RESOLV_CONF_LINES = 4096,
};

/* --- which networks are attached to the pods' interfaces (rtnetlink(7)) ---------------------- */

struct networks {
	const struct tree_node *interfaces;
	int32_t routed[NETWORKS_MAX]; /* the interfaces to which IPv4 routes lead */
	size_t n_routed;
	int32_t ids[NETWORKS_MAX]; /* as numbered in this network namespace */
	size_t n;
};

bool
pods_interface(const struct tree_node *interfaces, const char *name)
{
	tree_each(interfaces, glob) {
		if (fnmatch(tree_text(glob, ""), name, 0) == 0)
			return true;
	}
	return false;
}

static bool
is_listed(const int32_t *list, size_t n, int32_t wanted)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] == wanted)
			return true;
	}
	return false;
}

static int
ctl_pods_ask(int fd, struct nlmsghdr *request)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	return sendto(fd, request, request->nlmsg_len, 0, (const struct sockaddr *)&kernel,
		       sizeof kernel) < 0
		? -errno
		: 0;
}

/* Reads a numeric attribute after `header` bytes; false: it is missing. */
static bool
ctl_pods_attribute(struct nlmsghdr *m, size_t header, unsigned short type, int32_t *value)
{
	int len = (int)(m->nlmsg_len - NLMSG_SPACE(header));
	struct rtattr *a = (struct rtattr *)(void *)((char *)NLMSG_DATA(m) + NLMSG_ALIGN(header));

	for (; RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type != type || RTA_PAYLOAD(a) != sizeof *value)
			continue;
		memcpy(value, RTA_DATA(a), sizeof *value);
		return true;
	}
	return false;
}

static void
note_route(struct networks *to, struct nlmsghdr *m)
{
	int32_t index;

	if (ctl_pods_attribute(m, sizeof(struct rtmsg), RTA_OIF, &index) &&
		!is_listed(to->routed, to->n_routed, index) && to->n_routed < NETWORKS_MAX)
		to->routed[to->n_routed++] = index;
}

/* Of a pair without a bridge the route tells that it is in use: a port that was taken out of its
 * bridge has none. */
static void
note_link(struct networks *to, struct nlmsghdr *m)
{
	int32_t id, index = ((const struct ifinfomsg *)NLMSG_DATA(m))->ifi_index;
	char name[IF_NAMESIZE];

	if (to->n < NETWORKS_MAX &&
		ctl_pods_attribute(m, sizeof(struct ifinfomsg), IFLA_LINK_NETNSID, &id) &&
		(ctl_pods_attribute(m, sizeof(struct ifinfomsg), IFLA_MASTER, &index) ||
			is_listed(to->routed, to->n_routed, index)) &&
		if_indextoname((unsigned)index, name) != NULL &&
		pods_interface(to->interfaces, name))
		to->ids[to->n++] = id;
}

static void
list_all(int fd, unsigned short type, struct networks *to)
{
	struct {
		struct nlmsghdr head;
		union {
			struct ifinfomsg link;
			struct rtmsg route;
		};
	} request = {.head = {.nlmsg_len = sizeof request,
			     .nlmsg_type = type,
			     .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
	auto_free char *bytes = xmalloc(MESSAGE_BYTES);
	bool more;

	if (type == RTM_GETROUTE)
		request.route.rtm_family = AF_INET;
	more = ctl_pods_ask(fd, &request.head) == 0;
	while (more) {
		ssize_t n = recv(fd, bytes, MESSAGE_BYTES, 0);
		struct nlmsghdr *m = (struct nlmsghdr *)(void *)bytes;
		unsigned len = n > 0 ? (unsigned)n : 0;

		more = n > 0;
		for (; NLMSG_OK(m, len); m = NLMSG_NEXT(m, len)) {
			if (m->nlmsg_type == RTM_NEWLINK)
				note_link(to, m);
			else if (m->nlmsg_type == RTM_NEWROUTE)
				note_route(to, m);
			else
				more = false; /* NLMSG_DONE, or an error */
		}
	}
}

/* Returns whether the network namespace of this file is among them. */
static bool
hangs_there(int fd, int network, const struct networks *there)
{
	struct {
		struct nlmsghdr head;
		struct rtgenmsg gen;
		char pad[3];
		struct rtattr attr;
		int32_t fd;
	} request = {.head = {.nlmsg_len = sizeof request,
			     .nlmsg_type = RTM_GETNSID,
			     .nlmsg_flags = NLM_F_REQUEST},
		.attr = {.rta_len = RTA_LENGTH(sizeof(int32_t)), .rta_type = NETNSA_FD},
		.fd = network};
	char bytes[1024] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *m = (struct nlmsghdr *)(void *)bytes;
	int32_t id;
	ssize_t n;

	if (ctl_pods_ask(fd, &request.head) < 0 || (n = recv(fd, bytes, sizeof bytes, 0)) < 0 ||
		!NLMSG_OK(m, (unsigned)n) || m->nlmsg_type != RTM_NEWNSID ||
		!ctl_pods_attribute(m, sizeof(struct rtgenmsg), NETNSA_NSID, &id))
		return false;
	return is_listed(there->ids, there->n, id);
}

/* --- the processes of pods ------------------------------------------------------------------ */

static void
read_servers(struct pod *p)
{
	auto_free char *path = xasprintf("/proc/%d/root", p->pid);
	auto_fd int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = within_open(root, WITHIN_ROOT, "/etc/resolv.conf", RESOLV_CONF_MOST);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	char line[512], text[64];
	size_t n = 0; /* whoever writes it meanwhile gives it no end */

	while (f != NULL && n++ < RESOLV_CONF_LINES && p->n_servers < POD_SERVERS_MAX &&
		fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, " nameserver %63s", text) == 1 &&
			inet_pton(AF_INET, text, &p->servers[p->n_servers]) == 1)
			p->n_servers++;
	}
	if (f != NULL)
		fclose(f);
}

static void
ctl_pods_describe(struct pod *p, int pid)
{
	auto_free char *path = xasprintf("/proc/%d/comm", pid);
	FILE *f = fopen(path, "re");
	char name[16] = ""; /* size: the kernel's TASK_COMM_LEN */

	if (f != NULL && fscanf(f, "%15[^\n]", name) != 1)
		name[0] = '\0';
	if (f != NULL)
		fclose(f);
	*p = (struct pod){.pid = pid};
	snprintf(p->who, sizeof p->who, "%s (pid %d)", name, pid);
	read_servers(p);
}

static int
open_network(int pid)
{
	auto_free char *path = xasprintf("/proc/%d/ns/net", pid);

	return open(path, O_RDONLY | O_CLOEXEC);
}

static bool
is_new(ino_t *seen, size_t *n, ino_t inode)
{
	for (size_t i = 0; i < *n; i++) {
		if (seen[i] == inode)
			return false;
	}
	if (*n < SEEN_MAX)
		seen[(*n)++] = inode;
	return true;
}

static size_t
ctl_pods_search(int fd, const struct networks *there, struct pod *pods, size_t most)
{
	auto_free ino_t *seen = xcalloc(SEEN_MAX, sizeof *seen);
	size_t n_seen = 0, n = 0;
	const struct dirent *e;
	DIR *d = opendir("/proc");

	while (d != NULL && n < most && (e = readdir(d)) != NULL) {
		int pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		auto_fd int network = pid > 0 ? open_network(pid) : -1;
		struct stat st;

		if (network >= 0 && fstat(network, &st) == 0 && is_new(seen, &n_seen, st.st_ino) &&
			hangs_there(fd, network, there))
			ctl_pods_describe(&pods[n++], pid);
	}
	if (d != NULL)
		closedir(d);
	return n;
}

size_t
pods_find(const struct tree_node *interfaces, struct pod *pods, size_t most, size_t *networks)
{
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	auto_free struct networks *there = xcalloc(1, sizeof *there);

	*networks = 0;
	if (fd < 0)
		return 0;
	there->interfaces = interfaces;
	list_all(fd, RTM_GETROUTE, there);
	list_all(fd, RTM_GETLINK, there);
	*networks = there->n;
	return there->n > 0 ? ctl_pods_search(fd, there, pods, most) : 0;
}

/* --- in the pod's network ------------------------------------------------------------------- */

static int
wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};
	int n = poll(&p, 1, POD_PATIENCE_MS);

	return n > 0 ? 0 : n == 0 ? ETIMEDOUT : errno;
}

/* Any answer is enough: it shows that the server is reachable. */
static int
ask_name(const struct addr *server)
{
	u_char query[NS_PACKETSZ];
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int len, error;

	if (fd < 0 || connect(fd, &server->sa, server->len) < 0)
		return errno;
	len = res_mkquery(ns_o_query, "1.0.0.127.in-addr.arpa", ns_c_in, ns_t_ptr, NULL, 0, NULL,
		query, sizeof query);
	if (len < 0 || send(fd, query, (size_t)len, 0) < 0)
		return len < 0 ? EINVAL : errno;
	if ((error = wait_for(fd, POLLIN)) != 0)
		return error;
	return recv(fd, query, sizeof query, 0) < 0 ? errno : 0;
}

static int
ctl_pods_reach(const struct addr *service, struct pod_view *view)
{
	struct sockaddr_in mine;
	socklen_t mine_len = sizeof mine, mtu_len = sizeof(int);
	auto_fd int fd = -1;
	int error, mtu;

	if (sock_connect(service, 0, &fd) < 0)
		return errno;
	if (getsockname(fd, (struct sockaddr *)&mine, &mine_len) == 0)
		view->address = mine.sin_addr;
	if ((error = wait_for(fd, POLLOUT)) != 0 || (error = sock_error(fd)) != 0)
		return error;
	if (getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &mtu_len) == 0)
		view->mtu = (unsigned)mtu;
	return 0;
}

static void
look_around(int network, const struct pod_question *question, int to)
{
	struct pod_view view = {0};

	if (network >= 0 && setns(network, CLONE_NEWNET) < 0)
		_exit(1);
	if (question->dns.len > 0)
		view.dns_error = ask_name(&question->dns);
	if (question->service.len > 0)
		view.service_error = ctl_pods_reach(&question->service, &view);
	_exit(write(to, &view, sizeof view) == sizeof view ? 0 : 1);
}

int
pod_try(const struct pod *pod, const struct pod_question *question, struct pod_view *view)
{
	bool here = pod->pid == POD_HERE;
	auto_fd int network = here ? -1 : open_network(pod->pid), in = -1, out = -1;
	int pair[2];
	ssize_t n;
	pid_t child;

	if ((network < 0 && !here) || pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	in = pair[0];
	out = pair[1];
	fflush(NULL); /* so that buffered output is not written twice */
	if ((child = fork()) < 0)
		return -errno;
	if (child == 0)
		look_around(network, question, out);
	close(take_fd(&out));
	n = read(in, view, sizeof *view);
	waitpid(child, NULL, 0);
	return n == sizeof *view ? 0 : -EPERM;
}
