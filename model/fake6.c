#include "model/fake6.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/core/special_addr.h"
#include "model/check.h"

enum { BITS_MIN = 32, BITS_MAX = 64 };

int
fake6_parse(struct fake6 *range, const char *text, struct err *err)
{
	struct in6_addr inner;
	unsigned more = 0;

	*range = (struct fake6){0};
	if (*text == '\0')
		return 0;
	if (!ip_net_parse(text, &range->prefix, &range->bits) || strchr(text, ':') == NULL ||
		range->bits < BITS_MIN || range->bits > BITS_MAX)
		return err_set(err, EINVAL,
			"\"%.64s\": expected an IPv6 prefix from /%d to /%d, such as fd09:251::/64",
			text, BITS_MIN, BITS_MAX);
	for (unsigned i = range->bits; i < 128; i++)
		more |= range->prefix.s6_addr[i / 8] >> (7 - i % 8) & 1;
	if (more != 0)
		return err_set(err, EINVAL,
			"\"%.64s\" has bits behind its prefix: expected the first address, such as "
			"fd09:251::/64",
			text);
	inner = special_addr_inner(&range->prefix);
	if (special_addr_class(&range->prefix) != SPECIAL_NONE ||
		!special_addr_in_net(&inner, &range->prefix, 128))
		return err_set(err, EINVAL,
			"%.64s cannot be routed: take a prefix that the node never calls, such as "
			"fd09:251::/64",
			text);
	return 0;
}

struct in6_addr
fake6_of(const struct fake6 *range, uint32_t fake_ip)
{
	struct in6_addr ip = range->prefix;
	uint32_t be = htonl(fake_ip);

	memcpy(&ip.s6_addr[12], &be, sizeof be);
	return ip;
}

uint32_t
fake6_inner(const struct fake6 *range, const struct in6_addr *ip)
{
	uint32_t be;

	if (range->bits == 0 || !special_addr_in_net(ip, &range->prefix, FAKE6_BITS))
		return 0;
	memcpy(&be, &ip->s6_addr[12], sizeof be);
	return ntohl(be);
}

struct in6_addr
fake6_own(const struct fake6 *range)
{
	struct in6_addr ip = range->prefix;

	if (range->bits > 0)
		ip.s6_addr[11] = ip.s6_addr[15] = 1;
	return ip;
}
