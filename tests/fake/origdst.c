#include "tests/fake/origdst.h"

#include <stdatomic.h>

#include "base/core/sock.h"
#include "lb/conn/origdst.h"

/* Set by the test's thread, read by the loop's. */
static _Atomic uint64_t destination;

void
fake_origdst_set(uint32_t ip, uint16_t port)
{
	atomic_store(&destination, (uint64_t)ip << 16 | port);
}

int
origdst_get(int fd, struct in6_addr *ip, uint16_t *port)
{
	uint64_t d = atomic_load(&destination);

	(void)fd;
	*ip = ip_of_v4((uint32_t)(d >> 16));
	*port = (uint16_t)d;
	return 0;
}
