#include "hub/home.h"

#include <errno.h>
#include <ifaddrs.h>
#include <string.h>

#include "base/log.h"

struct net { /* IPv4 as ::ffff:a.b.c.d */
	struct in6_addr ip, mask;
};

struct home {
	struct loop *loop;
	struct net nets[HOME_NETS_MAX];
	size_t n;
	uint64_t looked_ms; /* 0: not yet */
};

struct home *
home_new(struct loop *loop)
{
	struct home *h = xcalloc(1, sizeof *h);

	h->loop = loop;
	return h;
}

void
home_free(struct home **h)
{
	free(take_ptr(h));
}

/* High: what stands in front of an IPv4 address, 0xff in a mask. */
static bool
to_v6(const struct sockaddr *a, uint8_t high, struct in6_addr *to)
{
	if (a == NULL || (a->sa_family != AF_INET && a->sa_family != AF_INET6))
		return false;
	if (a->sa_family == AF_INET6) {
		*to = ((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
		return true;
	}
	memset(to, high, sizeof *to);
	to->s6_addr[10] = to->s6_addr[11] = 0xff;
	memcpy(&to->s6_addr[12], &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
	return true;
}

static void
look(struct home *h)
{
	uint64_t now = loop_now_ms(h->loop);
	struct ifaddrs *all;

	if (h->looked_ms != 0 && now - h->looked_ms < HOME_MS)
		return;
	if (getifaddrs(&all) < 0) {
		log_limited(LOG_LEVEL_ERROR, 6, "hub",
			"cannot read this machine's addresses; going by those of before: %s",
			strerror(errno));
		return;
	}
	h->n = 0;
	for (const struct ifaddrs *at = all; at != NULL && h->n < HOME_NETS_MAX; at = at->ifa_next)
		h->n += to_v6(at->ifa_addr, 0, &h->nets[h->n].ip) &&
			to_v6(at->ifa_netmask, 0xff, &h->nets[h->n].mask);
	freeifaddrs(all);
	h->looked_ms = MAX(now, (uint64_t)1);
}

bool
home_has(struct home *h, const struct in6_addr *ip)
{
	look(h);
	for (size_t i = 0; i < h->n; i++) {
		const struct net *net = &h->nets[i];
		bool same = true;

		for (size_t k = 0; k < sizeof ip->s6_addr && same; k++)
			same = ((ip->s6_addr[k] ^ net->ip.s6_addr[k]) & net->mask.s6_addr[k]) == 0;
		if (same)
			return true;
	}
	return false;
}
