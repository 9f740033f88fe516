#include "src/ctl/ctl_kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/sock.h"
#include "base/core/util.h"

#define TABLE "edgeway-doctor"
#define CHAIN "check"

enum { BYTES = 1024, NFTABLES = NFNL_SUBSYS_NFTABLES << 8 };

struct batch {
	char bytes[BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	size_t len;
	struct nlmsghdr *message; /* the last message */
};

static void
add_message(struct batch *b, uint16_t type, uint16_t flags, uint16_t resource)
{
	const struct nfgenmsg gen = {.nfgen_family = type >= NFTABLES ? NFPROTO_IPV4 : AF_UNSPEC,
		.res_id = htons(resource)};

	b->message = (struct nlmsghdr *)(void *)(b->bytes + b->len);
	*b->message = (struct nlmsghdr){.nlmsg_len = NLMSG_LENGTH(sizeof gen),
		.nlmsg_type = type,
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)};
	memcpy(NLMSG_DATA(b->message), &gen, sizeof gen);
	b->len += NLMSG_SPACE(sizeof gen);
}

static struct nlattr *
add_attribute(struct batch *b, uint16_t type, const void *data, size_t n)
{
	struct nlattr *a = (struct nlattr *)(void *)(b->bytes + b->len);

	*a = (struct nlattr){.nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = type};
	if (n > 0)
		memcpy((char *)a + NLA_HDRLEN, data, n);
	b->len += NLA_ALIGN(NLA_HDRLEN + n);
	b->message->nlmsg_len += (uint32_t)NLA_ALIGN(NLA_HDRLEN + n);
	return a;
}

static void
add_number(struct batch *b, uint16_t type, int32_t value)
{
	uint32_t v = htonl((uint32_t)value);

	add_attribute(b, type, &v, sizeof v);
}

static void
write_batch(struct batch *b)
{
	size_t began;
	struct nlattr *hook;

	add_message(b, NFNL_MSG_BATCH_BEGIN, 0, NFNL_SUBSYS_NFTABLES);
	add_message(b, NFTABLES | NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_ACK, 0);
	add_attribute(b, NFTA_TABLE_NAME, TABLE, sizeof TABLE);
	add_message(b, NFTABLES | NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK, 0);
	add_attribute(b, NFTA_CHAIN_TABLE, TABLE, sizeof TABLE);
	add_attribute(b, NFTA_CHAIN_NAME, CHAIN, sizeof CHAIN);
	add_attribute(b, NFTA_CHAIN_TYPE, "nat", sizeof "nat");
	began = b->len;
	hook = add_attribute(b, NFTA_CHAIN_HOOK | NLA_F_NESTED, NULL, 0);
	add_number(b, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
	add_number(b, NFTA_HOOK_PRIORITY, NF_IP_PRI_NAT_DST);
	hook->nla_len = (uint16_t)(b->len - began);
}

/* The kernel has answered by the time send(2) returns. */
static int
read_verdict(int fd)
{
	char bytes[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
		struct nlmsghdr *m = (struct nlmsghdr *)(void *)bytes;
		unsigned len = (unsigned)n;

		for (; NLMSG_OK(m, len); m = NLMSG_NEXT(m, len)) {
			struct nlmsgerr answer;

			if (m->nlmsg_type != NLMSG_ERROR ||
				m->nlmsg_len < NLMSG_LENGTH(sizeof answer))
				continue;
			memcpy(&answer, NLMSG_DATA(m), sizeof answer);
			rc = rc == 0 ? answer.error : rc;
		}
	}
	return rc;
}

int
kernel_try_nat(void)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct batch b = {0};

	if (fd < 0)
		return -errno;
	write_batch(&b);
	if (sendto(fd, b.bytes, b.len, 0, (const struct sockaddr *)&kernel, sizeof kernel) < 0)
		return -errno;
	return read_verdict(fd);
}
