#include "lb/conn/origdst.h"

#include "base/core/sock.h"

int
origdst_get(int fd, uint32_t *ip, uint16_t *port)
{
	struct addr to;
	int rc = sock_original(fd, &to);

	if (rc < 0)
		return rc;
	*ip = ntohl(to.in.sin_addr.s_addr);
	*port = ntohs(to.in.sin_port);
	return 0;
}
