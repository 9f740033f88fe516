#include "iptables/host/kubeproxy.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* after libc's headers, whose structs it would otherwise redefine */
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4/ip_tables.h>

#include "base/core/util.h"
#include "iptables/table/netlink.h"

#define CHAIN "KUBE-SERVICES"
#define TABLE "kube-proxy"
#define LEGACY_TABLES "/proc/net/ip_tables_names"
enum { LEGACY_MAX = 64 << 20, NAMES_MAX = 4096, DUMPS_MAX = 3 };

static int
on_chain(const struct nlmsghdr *nlh, void *arg)
{
	const char **found = arg;

	if (strcmp(nl_text(nlh, sizeof(struct nfgenmsg), NFTA_CHAIN_NAME), CHAIN) == 0)
		*found = "chain " CHAIN " in nftables";
	if (strcmp(nl_text(nlh, sizeof(struct nfgenmsg), NFTA_CHAIN_TABLE), TABLE) == 0)
		*found = "table " TABLE " in nftables";
	return MNL_CB_OK;
}

static int
look_nftables(const char **found)
{
	char bytes[256];
	struct nlmsghdr *nlh =
		nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETCHAIN, NFPROTO_UNSPEC, NLM_F_DUMP, 1);
	auto_nl struct mnl_socket *nl = NULL;
	int rc = nl_open(&nl, NETLINK_NETFILTER, 0, NULL);

	if (rc == 0)
		rc = -EINTR; /* a dump ends with this if the tables were changed meanwhile */
	for (int i = 0; i < DUMPS_MAX && rc == -EINTR; i++)
		rc = nl_request(nl, nlh, on_chain, found);
	return rc;
}

static int
search_legacy(int fd, const char **found)
{
	struct ipt_getinfo info = {.name = "nat"};
	auto_free struct ipt_get_entries *all = NULL;
	socklen_t len = sizeof info;

	if (getsockopt(fd, IPPROTO_IP, IPT_SO_GET_INFO, &info, &len) < 0)
		return -errno;
	if (info.size > LEGACY_MAX)
		return -E2BIG;
	len = (socklen_t)(sizeof *all + info.size);
	all = xcalloc(1, len);
	memcpy(all->name, info.name, sizeof all->name);
	all->size = info.size;
	if (getsockopt(fd, IPPROTO_IP, IPT_SO_GET_ENTRIES, all, &len) < 0)
		return -errno; /* EAGAIN: the table grew meanwhile */
	/* The chain's name is in the entry that begins it, NUL-terminated. */
	if (memmem(all->entrytable, all->size, CHAIN, sizeof CHAIN) != NULL)
		*found = "chain " CHAIN " in iptables-legacy";
	return 0;
}

static int
look_legacy(const char **found)
{
	auto_free char *names = NULL;
	auto_fd int fd = -1;

	if (file_read(LEGACY_TABLES, NAMES_MAX, &names, NULL) < 0 || strstr(names, "nat") == NULL)
		return 0;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : search_legacy(fd, found);
}

static const char *
look_interfaces(void)
{
	static const struct {
		const char *name, *says;
	} interfaces[] = {
		{"kube-ipvs0", "interface kube-ipvs0"},
		{"cilium_host", "interface cilium_host"},
		{"cilium_net", "interface cilium_net"},
	};

	for (size_t i = 0; i < ARRAY_LEN(interfaces); i++)
		if (if_nametoindex(interfaces[i].name) != 0)
			return interfaces[i].says;
	return NULL;
}

int
kubeproxy_cluster_ips(const char **found)
{
	const char *now = look_interfaces();
	int rc = 0;

	if (now == NULL)
		rc = look_nftables(&now);
	if (now == NULL && rc == 0)
		rc = look_legacy(&now);
	if (now == NULL && rc < 0)
		return rc;
	*found = now;
	return 0;
}
