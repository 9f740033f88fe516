#include "lb/conn/origdst.h"

#include <errno.h>

#include "base/core/sock.h"

int
origdst_get(int fd, struct in6_addr *ip, uint16_t *port)
{
	struct addr to;
	int rc = sock_original(fd, &to);

	if (rc < 0)
		return rc;
	*port = addr_port(&to);
	return addr_ip(&to, ip) ? 0 : -EAFNOSUPPORT;
}
