#include "iptables/host/held_ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* after libc's headers, whose structs they would otherwise redefine */
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>

#include "base/core/sock.h"
#include "base/core/util.h"
#include "iptables/table/netlink.h"

/* Of the kernel's enum, which libc's <netinet/tcp.h> has too: the headers exclude each other. */
enum { STATE_CLOSE = 7, STATE_LISTEN = 10, DUMPS_MAX = 3 };

struct held_port {
	struct in6_addr ip; /* :: any address */
	uint16_t port;
	uint8_t proto;
};

struct held_ports_dump {
	struct buf *list;
	uint8_t proto;
};

static int
held_ports_on_socket(const struct nlmsghdr *nlh, void *arg)
{
	const struct held_ports_dump *dump = arg;
	const struct inet_diag_msg *m = mnl_nlmsg_get_payload(nlh);
	struct held_port one = {.proto = dump->proto};
	uint32_t v4;

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof *m)
		return MNL_CB_OK;
	one.port = ntohs(m->id.idiag_sport);
	if (m->idiag_family == AF_INET6) {
		memcpy(&one.ip, m->id.idiag_src, sizeof one.ip);
	} else {
		memcpy(&v4, m->id.idiag_src, sizeof v4);
		one.ip = v4 == 0 ? in6addr_any : ip_of_v4(ntohl(v4));
	}
	/* a socket of IPv6 at any address takes IPv4 too, mostly */
	if (one.port != 0)
		buf_add(dump->list, &one, sizeof one);
	return MNL_CB_OK;
}

static int
held_ports_dump(struct mnl_socket *nl, uint8_t family, struct held_ports_dump *dump)
{
	char bytes[256] = "";
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(bytes);
	struct inet_diag_req_v2 *ask;

	nlh->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = 1;
	ask = mnl_nlmsg_put_extra_header(nlh, sizeof *ask);
	ask->sdiag_family = family;
	ask->sdiag_protocol = dump->proto;
	ask->idiag_states = 1u << (dump->proto == IPPROTO_TCP ? STATE_LISTEN : STATE_CLOSE);
	return nl_request(nl, nlh, held_ports_on_socket, dump);
}

static int
held_ports_dump_all(struct mnl_socket *nl, struct buf *list)
{
	static const struct {
		uint8_t family, proto;
	} kinds[] = {{AF_INET, IPPROTO_TCP}, {AF_INET6, IPPROTO_TCP}, {AF_INET, IPPROTO_UDP},
		{AF_INET6, IPPROTO_UDP}};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(kinds) && rc == 0; i++) {
		struct held_ports_dump dump = {list, kinds[i].proto};

		rc = held_ports_dump(nl, kinds[i].family, &dump);
		/* the kernel has no IPv6 */
		if (rc == -ENOENT && kinds[i].family == AF_INET6)
			rc = 0;
	}
	return rc;
}

int
held_ports_read(struct buf *list, struct err *err)
{
	auto_nl struct mnl_socket *nl = NULL;
	auto_buf struct buf now;
	int rc;

	buf_init(&now, BUF_UNLIMITED);
	rc = nl_open(&nl, NETLINK_SOCK_DIAG, 0, err);
	if (rc < 0)
		return rc;
	rc = -EINTR; /* a dump ends with this if it may lack something */
	for (int i = 0; i < DUMPS_MAX && rc == -EINTR; i++) {
		buf_consume(&now, buf_len(&now));
		rc = held_ports_dump_all(nl, &now);
	}
	if (rc < 0)
		return err_set(err, rc,
			"cannot tell which ports processes of the node listen at: %s%s",
			strerror(-rc),
			rc == -ENOENT ? " (modprobe inet_diag tcp_diag udp_diag)" : "");
	buf_consume(list, buf_len(list));
	buf_add(list, buf_at(&now), buf_len(&now));
	return 0;
}

bool
held_ports_has(const struct buf *list, const struct in6_addr *ip, uint16_t port, uint8_t proto)
{
	const struct held_port *at = (const void *)buf_at(list);

	for (size_t n = buf_len(list) / sizeof *at; n > 0; n--, at++)
		if (at->port == port && at->proto == proto &&
			(IN6_IS_ADDR_UNSPECIFIED(&at->ip) || ip_same(&at->ip, ip)))
			return true;
	return false;
}
