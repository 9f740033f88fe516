#include "iptables/host/bridge_port.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/core/util.h"
#include "iptables/table/netlink.h"

#define NAME "edgeway-tap%d" /* the kernel chooses the number */

enum {
	MESSAGE_MAX = 256,
	TYPE_AT = 12, /* offset of a frame's EtherType */
	ARP_SENDER_AT = 28, /* RFC 826: the sender's protocol address */
	ARP_TARGET_AT = 38, /* RFC 826: the target's protocol address */
	TYPE_ARP = 0x0806,
	WHOLE_FRAME = 0xffff,
};

/* A bridge floods broadcasts to each port: drop those for others without waking us. */
static int
bridge_port_filter(int fd, uint32_t ip, uint32_t also, const uint8_t mac[BRIDGE_PORT_MAC])
{
	const uint32_t high = (uint32_t)mac[0] << 24 | (uint32_t)mac[1] << 16 |
		(uint32_t)mac[2] << 8 | mac[3],
		       low = (uint32_t)mac[4] << 8 | mac[5], other = also != 0 ? also : ip;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 2),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 8, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, TYPE_AT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TYPE_ARP, 0, 7),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARP_SENDER_AT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 3, 0),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARP_TARGET_AT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ip, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, WHOLE_FRAME),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};

	return ioctl(fd, TUNATTACHFILTER, &program) < 0 ? -errno : 0;
}

struct bridge_look {
	unsigned index, mtu;
	bool bridge;
};

static int
bridge_on_link(const struct nlmsghdr *nlh, void *arg)
{
	struct bridge_look *look = arg;
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *details = nl_attr(nlh, sizeof *info, IFLA_LINKINFO), *kind;

	if (nlh->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	look->index = (unsigned)info->ifi_index;
	look->mtu = nl_u32(nlh, sizeof *info, IFLA_MTU);
	kind = details != NULL ? nl_nested(details, IFLA_INFO_KIND) : NULL;
	look->bridge = kind != NULL && mnl_attr_validate(kind, MNL_TYPE_NUL_STRING) == 0 &&
		strcmp(mnl_attr_get_str(kind), "bridge") == 0;
	return MNL_CB_OK;
}

static int
bridge_find(struct mnl_socket *nl, const char *name, struct bridge_look *look)
{
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	nlh->nlmsg_seq = 1;
	mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, name);
	return nl_request(nl, nlh, bridge_on_link, look);
}

/* The device's MAC address is the highest of the bridge's ports (like libvirt's), so that it never
 * becomes the bridge's. A port with a smaller MTU would reduce the bridge's, so it gets the
 * bridge's. */
static int
bridge_port_join(struct mnl_socket *nl, const char *name, const struct bridge_look *bridge,
	const uint8_t mac[BRIDGE_PORT_MAC])
{
	char bytes[MESSAGE_MAX];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	uint8_t own[BRIDGE_PORT_MAC];
	struct ifinfomsg *info;

	memcpy(own, mac, sizeof own);
	own[0] = 0xfe;
	nlh->nlmsg_type = RTM_SETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	nlh->nlmsg_seq = 2;
	info = mnl_nlmsg_put_extra_header(nlh, sizeof *info);
	info->ifi_index = (int)if_nametoindex(name);
	info->ifi_flags = info->ifi_change = IFF_UP;
	mnl_attr_put(nlh, IFLA_ADDRESS, sizeof own, own);
	mnl_attr_put_u32(nlh, IFLA_MTU, bridge->mtu);
	mnl_attr_put_u32(nlh, IFLA_MASTER, bridge->index);
	return nl_request(nl, nlh, NULL, NULL);
}

int
bridge_port_open(struct bridge_port *port, const char *bridge, uint32_t ip, uint32_t also,
	const uint8_t mac[BRIDGE_PORT_MAC], struct err *err)
{
	auto_nl struct mnl_socket *nl = NULL;
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI, .ifr_name = NAME};
	struct bridge_look look = {0};
	auto_fd int fd = -1;
	int rc = nl_open(&nl, NETLINK_ROUTE, 0, err);

	if (rc < 0)
		return rc;
	rc = bridge_find(nl, bridge, &look);
	if (rc < 0)
		return err_set(err, rc, "%s: %s", bridge, strerror(-rc));
	if (!look.bridge)
		return err_set(err, EOPNOTSUPP, "%s is no bridge", bridge);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0)
		return err_set(err, errno, "/dev/net/tun: %s", strerror(errno));
	rc = bridge_port_filter(fd, ip, also, mac);
	if (rc == 0)
		rc = bridge_port_join(nl, request.ifr_name, &look, mac);
	if (rc < 0)
		return err_set(err, rc, "%s cannot become a port of %s: %s", request.ifr_name,
			bridge, strerror(-rc));
	snprintf(port->name, sizeof port->name, "%s", request.ifr_name);
	port->fd = take_fd(&fd);
	return 0;
}
