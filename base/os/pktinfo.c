#include "base/os/pktinfo.h"

#include <errno.h>
#include <string.h>

#include "base/core/hops.h"

enum { CONTROL_BYTES = 128 };

static void
take_info4(const struct cmsghdr *h, struct pktinfo_way *way)
{
	struct in_pktinfo info;

	memcpy(&info, CMSG_DATA(h), sizeof info);
	way->arrived = (unsigned)info.ipi_ifindex;
	way->local.s6_addr[10] = way->local.s6_addr[11] = 0xff;
	memcpy(&way->local.s6_addr[12], &info.ipi_spec_dst, sizeof info.ipi_spec_dst);
}

static void
take_info6(const struct cmsghdr *h, struct pktinfo_way *way)
{
	struct in6_pktinfo info;

	memcpy(&info, CMSG_DATA(h), sizeof info);
	way->arrived = (unsigned)info.ipi6_ifindex;
	if (IN6_IS_ADDR_MULTICAST(&info.ipi6_addr)) /* a multicast address cannot be a source */
		return;
	way->local = info.ipi6_addr;
	if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
		way->interface = (unsigned)info.ipi6_ifindex;
}

static void
pktinfo_take_ttl(const struct cmsghdr *h, struct pktinfo_way *way)
{
	int ttl;

	memcpy(&ttl, CMSG_DATA(h), sizeof ttl);
	way->hops = hops_of_ttl(ttl);
}

ssize_t
pktinfo_recv(int fd, void *to, size_t size, struct pktinfo_way *way)
{
	uint8_t control[CONTROL_BYTES] __attribute__((aligned(__alignof__(struct cmsghdr))));
	struct iovec vec = {to, size};
	struct msghdr m;
	ssize_t n;

	memset(way, 0, sizeof *way);
	do {
		m = (struct msghdr){
			.msg_name = &way->peer.sa,
			.msg_namelen = sizeof way->peer.in6,
			.msg_iov = &vec,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof control,
		};
		n = recvmsg(fd, &m, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	way->peer.len = m.msg_namelen;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h != NULL; h = CMSG_NXTHDR(&m, h)) {
		if (h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO)
			take_info4(h, way);
		else if (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_PKTINFO)
			take_info6(h, way);
		else if ((h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_TTL) ||
			(h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_HOPLIMIT))
			pktinfo_take_ttl(h, way);
	}
	return n;
}

static size_t
put_info(uint8_t *control, const struct pktinfo_way *way)
{
	struct cmsghdr *h = (struct cmsghdr *)(void *)control;
	struct in6_pktinfo info6 = {.ipi6_addr = way->local, .ipi6_ifindex = way->interface};
	struct in_pktinfo info4 = {0};

	if (IN6_IS_ADDR_UNSPECIFIED(&way->local))
		return 0;
	if (way->peer.sa.sa_family == AF_INET6) {
		h->cmsg_level = IPPROTO_IPV6;
		h->cmsg_type = IPV6_PKTINFO;
		h->cmsg_len = CMSG_LEN(sizeof info6);
		memcpy(CMSG_DATA(h), &info6, sizeof info6);
		return CMSG_SPACE(sizeof info6);
	}
	memcpy(&info4.ipi_spec_dst, &way->local.s6_addr[12], sizeof info4.ipi_spec_dst);
	h->cmsg_level = IPPROTO_IP;
	h->cmsg_type = IP_PKTINFO;
	h->cmsg_len = CMSG_LEN(sizeof info4);
	memcpy(CMSG_DATA(h), &info4, sizeof info4);
	return CMSG_SPACE(sizeof info4);
}

int
pktinfo_send(int fd, const void *data, size_t n, const struct pktinfo_way *way)
{
	uint8_t control[CONTROL_BYTES] __attribute__((aligned(__alignof__(struct cmsghdr)))) = {0};
	struct addr peer = way->peer;
	struct iovec vec = {(void *)(uintptr_t)data, n};
	struct msghdr m = {
		.msg_name = &peer.sa, .msg_namelen = peer.len, .msg_iov = &vec, .msg_iovlen = 1};
	ssize_t rc;

	m.msg_controllen = put_info(control, way);
	m.msg_control = m.msg_controllen > 0 ? control : NULL;
	do
		rc = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : 0;
}
