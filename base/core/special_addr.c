#include "base/core/special_addr.h"

#include <stdint.h>
#include <string.h>

#include "base/core/util.h"

struct v4_range {
	uint32_t prefix; /* host byte order */
	unsigned bits;
	enum special_addr class;
};

struct v6_range {
	struct in6_addr prefix;
	unsigned bits;
	enum special_addr class;
};

#define V4(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))
#define V6(...)                                                                                    \
	{                                                                                          \
		.s6_addr = { __VA_ARGS__ }                                                         \
	}

/* The first range that contains the address decides. 169.254.169.254 is the metadata address of
 * AWS, Google Cloud, Azure, Oracle, OpenStack, DigitalOcean, Hetzner, Akamai, IBM, Huawei and
 * Tencent. */
static const struct v4_range v4_ranges[] = {
	{V4(169, 254, 169, 254), 32, SPECIAL_METADATA},
	{V4(169, 254, 170, 2), 32, SPECIAL_METADATA}, /* AWS, credentials of ECS tasks */
	{V4(169, 254, 170, 23), 32, SPECIAL_METADATA}, /* AWS, EKS Pod Identity */
	{V4(169, 254, 42, 42), 32, SPECIAL_METADATA}, /* Scaleway */
	{V4(169, 254, 0, 23), 32, SPECIAL_METADATA}, /* Tencent */
	{V4(100, 100, 100, 200), 32, SPECIAL_METADATA}, /* Alibaba */
	{V4(100, 96, 0, 96), 32, SPECIAL_METADATA}, /* Volcengine */
	{V4(168, 63, 129, 16), 32, SPECIAL_METADATA}, /* Azure, the host's agent */
	{V4(192, 0, 0, 192), 32, SPECIAL_METADATA}, /* Oracle, classic */
	{V4(127, 0, 0, 0), 8, SPECIAL_LOOPBACK}, /* RFC 1122 section 3.2.1.3 */
	{V4(169, 254, 0, 0), 16, SPECIAL_LINK_LOCAL}, /* RFC 3927 */
	{V4(0, 0, 0, 0), 8, SPECIAL_UNSPECIFIED}, /* RFC 791 section 3.2 */
	{V4(224, 0, 0, 0), 4, SPECIAL_MULTICAST}, /* RFC 5771 */
	{V4(240, 0, 0, 0), 4, SPECIAL_RESERVED}, /* RFC 1112 section 4, RFC 919 section 7 */
};

static const struct v6_range v6_ranges[] = {
	{V6(0xfd, 0x00, 0x0e, 0xc2), 32, SPECIAL_METADATA}, /* AWS: fd00:ec2::254, ::23 */
	{V6(0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54), 128, SPECIAL_METADATA}, /* Google Cloud */
	{V6(0xfd, 0x00, 0x00, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe), 128,
		SPECIAL_METADATA}, /* Oracle */
	{V6(0xfd, 0x00, 0x01, 0x00, [12] = 0x01, 0x00, 0x02, 0x00), 128,
		SPECIAL_METADATA}, /* Alibaba */
	{V6(0xfd, 0x00, 0xa9, 0xfe, 0xa9, 0xfe, [15] = 0x01), 128, SPECIAL_METADATA}, /* Akamai */
	{V6(0xfd, 0x00, 0x00, 0x42, [15] = 0x42), 128, SPECIAL_METADATA}, /* Scaleway */
	{V6(0xfe, 0x80, [12] = 0xa9, 0xfe, 0xa9, 0xfe), 128, SPECIAL_METADATA}, /* OpenStack */
	{V6([15] = 1), 128, SPECIAL_LOOPBACK}, /* RFC 4291 section 2.5.3 */
	{V6(0xfe, 0x80), 10, SPECIAL_LINK_LOCAL}, /* section 2.5.6 */
	{V6(0), 128, SPECIAL_UNSPECIFIED}, /* section 2.5.2 */
	{V6(0xff), 8, SPECIAL_MULTICAST}, /* section 2.7 */
};

/* Prefixes of wrapped IPv4 addresses, and the byte at which the IPv4 address begins. */
static const struct wrapping {
	struct in6_addr prefix;
	unsigned bits, at;
} wrappings[] = {
	{V6([10] = 0xff, 0xff), 96, 12}, /* IPv4-mapped */
	{V6([8] = 0xff, 0xff), 96, 12}, /* IPv4-translated */
	{V6(0, 0x64, 0xff, 0x9b), 96, 12}, /* NAT64 */
	{V6(0, 0x64, 0xff, 0x9b, 0, 1), 48, 12}, /* NAT64 of one network, as a /96 of it */
	{V6(0x20, 0x02), 16, 2}, /* 6to4 */
	{V6(0), 96, 12}, /* IPv4-compatible; but :: and ::1 are none */
};

bool
special_addr_in_net(const struct in6_addr *ip, const struct in6_addr *prefix, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(ip, prefix, whole) != 0)
		return false;
	return rest == 0 || ((ip->s6_addr[whole] ^ prefix->s6_addr[whole]) >> (8 - rest)) == 0;
}

static bool
is_plain_v6(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_UNSPECIFIED(ip) || IN6_IS_ADDR_LOOPBACK(ip);
}

static bool
find_inner(const struct in6_addr *ip, uint32_t *v4)
{
	for (size_t i = 0; i < ARRAY_LEN(wrappings) && !is_plain_v6(ip); i++) {
		const struct wrapping *w = &wrappings[i];

		if (!special_addr_in_net(ip, &w->prefix, w->bits))
			continue;
		memcpy(v4, &ip->s6_addr[w->at], sizeof *v4);
		*v4 = ntohl(*v4);
		return true;
	}
	return false;
}

struct in6_addr
special_addr_inner(const struct in6_addr *ip)
{
	struct in6_addr inner = V6([10] = 0xff, 0xff);
	uint32_t v4;

	if (!find_inner(ip, &v4))
		return *ip;
	v4 = htonl(v4);
	memcpy(&inner.s6_addr[12], &v4, sizeof v4);
	return inner;
}

enum special_addr
special_addr_class(const struct in6_addr *ip)
{
	uint32_t v4;

	if (find_inner(ip, &v4)) {
		for (size_t i = 0; i < ARRAY_LEN(v4_ranges); i++)
			if ((v4 ^ v4_ranges[i].prefix) >> (32 - v4_ranges[i].bits) == 0)
				return v4_ranges[i].class;
		return SPECIAL_NONE;
	}
	for (size_t i = 0; i < ARRAY_LEN(v6_ranges); i++)
		if (special_addr_in_net(ip, &v6_ranges[i].prefix, v6_ranges[i].bits))
			return v6_ranges[i].class;
	return SPECIAL_NONE;
}

const char *special_addr_text(enum special_addr class)
{
	static const char *const texts[SPECIAL_CLASSES] = {
		[SPECIAL_NONE] = "",
		[SPECIAL_LOOPBACK] = "a loopback address",
		[SPECIAL_LINK_LOCAL] = "a link-local address",
		[SPECIAL_METADATA] = "a cloud's metadata address",
		[SPECIAL_UNSPECIFIED] = "an unspecified address",
		[SPECIAL_MULTICAST] = "a multicast address",
		[SPECIAL_RESERVED] = "a reserved address",
		[SPECIAL_OWN] = "an address of this node",
		[SPECIAL_CLEAR] =
			("an address that is reached in clear text alone, which mesh.encrypt "
			 "or edgeway.io/encrypt forbids"),
	};

	return texts[class];
}

const char *special_addr_name(enum special_addr class)
{
	static const char *const names[SPECIAL_CLASSES] = {
		[SPECIAL_NONE] = "",
		[SPECIAL_LOOPBACK] = "loopback",
		[SPECIAL_LINK_LOCAL] = "link_local",
		[SPECIAL_METADATA] = "metadata",
		[SPECIAL_UNSPECIFIED] = "unspecified",
		[SPECIAL_MULTICAST] = "multicast",
		[SPECIAL_RESERVED] = "reserved",
		[SPECIAL_OWN] = "own",
		[SPECIAL_CLEAR] = "clear",
	};

	return names[class];
}
