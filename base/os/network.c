#include "base/os/network.h"

#include <arpa/inet.h>
#include <string.h>

/* Decimal digits only, no sign, no blanks. */
static bool
network_read_bits(const char *text, unsigned most, unsigned *bits)
{
	size_t len = strlen(text);

	*bits = 0;
	if (len == 0 || len > 3 || strspn(text, "0123456789") != len)
		return false;
	for (size_t i = 0; i < len; i++)
		*bits = *bits * 10 + (unsigned)(text[i] - '0');
	return *bits <= most;
}

bool
network_parse(struct network *to, const char *text)
{
	const char *slash = strchr(text, '/');
	size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
	char ip[INET6_ADDRSTRLEN];
	bool v4 = false;

	if (len >= sizeof ip)
		return false;
	memcpy(ip, text, len);
	ip[len] = '\0';
	*to = (struct network){.bits = 128};
	if (inet_pton(AF_INET6, ip, &to->ip) != 1) {
		to->ip.s6_addr[10] = to->ip.s6_addr[11] = 0xff;
		if (inet_pton(AF_INET, ip, &to->ip.s6_addr[12]) != 1)
			return false;
		v4 = true;
	}
	if (slash == NULL)
		return true;
	if (!network_read_bits(slash + 1, v4 ? 32 : 128, &to->bits))
		return false;
	to->bits += v4 ? 96 : 0;
	return true;
}

bool
network_holds(const struct network *n, const struct in6_addr *ip)
{
	unsigned whole = n->bits / 8, rest = n->bits % 8;

	if (n->bits < 96 && IN6_IS_ADDR_V4MAPPED(ip))
		return false;
	if (memcmp(&n->ip, ip, whole) != 0)
		return false;
	return rest == 0 || ((n->ip.s6_addr[whole] ^ ip->s6_addr[whole]) >> (8 - rest)) == 0;
}
