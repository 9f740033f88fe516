#include "dns/forward/cookie.h"

#include <string.h>

enum { AT_VERSION = DNS_COOKIE_CLIENT, AT_TIME = AT_VERSION + 4, AT_HASH = AT_TIME + 4 };

static uint64_t
cookie_load(const uint8_t *p)
{
	uint64_t v = 0;

	for (unsigned i = 8; i-- > 0;)
		v = v << 8 | p[i];
	return v;
}

static uint64_t
cookie_turn(uint64_t v, unsigned n)
{
	return v << n | v >> (64 - n);
}

static void
cookie_rounds(uint64_t v[4], unsigned n)
{
	while (n-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = cookie_turn(v[1], 13) ^ v[0];
		v[3] = cookie_turn(v[3], 16) ^ v[2];
		v[0] = cookie_turn(v[0], 32) + v[3];
		v[2] += v[1];
		v[3] = cookie_turn(v[3], 21) ^ v[0];
		v[1] = cookie_turn(v[1], 17) ^ v[2];
		v[2] = cookie_turn(v[2], 32);
	}
}

static void
cookie_take(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	cookie_rounds(v, 2);
	v[0] ^= word;
}

/* SipHash-2-4 of less than 256 bytes. */
static uint64_t
cookie_hash(const uint8_t *m, size_t len, const uint8_t secret[COOKIE_SECRET_BYTES])
{
	uint64_t low = cookie_load(secret), high = cookie_load(secret + 8);
	uint64_t v[4] = {low ^ 0x736f6d6570736575, high ^ 0x646f72616e646f6d,
		low ^ 0x6c7967656e657261, high ^ 0x7465646279746573};
	uint8_t last[8] = {[7] = (uint8_t)len};

	memcpy(last, m + (len & ~7u), len & 7u);
	for (size_t at = 0; at + 8 <= len; at += 8)
		cookie_take(v, cookie_load(m + at));
	cookie_take(v, cookie_load(last));
	v[2] ^= 0xff;
	cookie_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void
cookie_sign(uint8_t cookie[DNS_COOKIE_BYTES], const uint8_t secret[COOKIE_SECRET_BYTES],
	const struct dns_client *client, uint32_t now_s)
{
	uint8_t m[AT_HASH + sizeof client->in6.sin6_addr];
	size_t len;
	const uint8_t *address = dns_client_bytes(client, &len);
	uint64_t h;

	memcpy(cookie + AT_VERSION, "\1\0\0", 4);
	dns_put32(cookie + AT_TIME, now_s);
	memcpy(m, cookie, AT_HASH);
	memcpy(m + AT_HASH, address, len);
	h = cookie_hash(m, AT_HASH + len, secret);
	for (unsigned i = 0; i < 8; i++)
		cookie[AT_HASH + i] = (uint8_t)(h >> 8 * i);
}
