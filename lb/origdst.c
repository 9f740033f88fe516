#include "lb/origdst.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { ORIGINAL_DST = 80 }; /* linux/netfilter_ipv4.h, which does not go with netinet/in.h */

int
origdst_get(int fd, uint32_t *ip, uint16_t *port)
{
	struct sockaddr_in to;
	socklen_t len = sizeof to;

	if (getsockopt(fd, SOL_IP, ORIGINAL_DST, &to, &len) < 0)
		return -errno;
	*ip = ntohl(to.sin_addr.s_addr);
	*port = ntohs(to.sin_port);
	return 0;
}
