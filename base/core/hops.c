#include "base/core/hops.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

unsigned
hops_of_ttl(int ttl)
{
	return ttl <= 0 || ttl >= HOPS_TTL ? 0 : (unsigned)(HOPS_TTL - ttl) / HOPS_TTL_STEP;
}

/* The kernel stores the TTL of the packet that ended the handshake in the multicast TTL option,
 * which TCP does not use otherwise (tcp_v4_syn_recv_sock, tcp_v6_syn_recv_sock): one call, and
 * nothing to enable before. */
unsigned
hops_of_socket(int fd, int family)
{
	bool six = family == AF_INET6;
	int ttl = 0;
	socklen_t len = sizeof ttl;

	if ((family != AF_INET && !six) ||
		getsockopt(fd, six ? SOL_IPV6 : SOL_IP,
			six ? IPV6_MULTICAST_HOPS : IP_MULTICAST_TTL, &ttl, &len) < 0)
		return 0;
	return hops_of_ttl(ttl);
}

void
hops_mark(int fd, int family, unsigned hops)
{
	int ttl = HOPS_TTL - HOPS_TTL_STEP * (int)MIN(hops, (unsigned)HOPS_MAX);

	if (hops == 0)
		return;
	if (family == AF_INET6)
		(void)setsockopt(fd, SOL_IPV6, IPV6_UNICAST_HOPS, &ttl, sizeof ttl);
	/* on IPv6 sockets for addresses ::ffff:a.b.c.d */
	if (family == AF_INET || family == AF_INET6)
		(void)setsockopt(fd, SOL_IP, IP_TTL, &ttl, sizeof ttl);
}

void
hops_ask(int fd, int family)
{
	static const int on = 1;

	if (family == AF_INET6)
		(void)setsockopt(fd, SOL_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on);
	(void)setsockopt(fd, SOL_IP, IP_RECVTTL, &on, sizeof on);
}

unsigned
hops_parse(const char *text)
{
	size_t n = strspn(text, "0123456789");

	if (text[n] != '\0' || n > 9)
		return HOPS_MAX;
	return (unsigned)strtoul(text, NULL, 10);
}

const char *
hops_text(unsigned hops, char to[HOPS_TEXT_MAX])
{
	snprintf(to, HOPS_TEXT_MAX, "%u", hops);
	return to;
}
