/*
 * Server cookies (RFC 7873) as all servers make them (RFC 9018): version, time, and SipHash-2-4 of
 * the client's cookie, these and its address under a secret. A client that sent a cookie knows by
 * it that an answer comes from the one it asked. Nobody is refused for a cookie that is missing or
 * old.
 *
 * Pure: the clock is the caller's.
 */
#ifndef EDGEWAY_DNS_FORWARD_COOKIE_H
#define EDGEWAY_DNS_FORWARD_COOKIE_H

#include "dns/answer/message.h"

enum { COOKIE_SECRET_BYTES = 16 };

/* Fills in the server's part behind the client's. `client`: IPv4 address as it is in packets. */
void cookie_sign(uint8_t cookie[DNS_COOKIE_BYTES], const uint8_t secret[COOKIE_SECRET_BYTES],
	const uint8_t client[4], uint32_t now_s);

#endif
