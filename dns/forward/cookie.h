/*
 * Server cookies (RFC 7873) in the interoperable format (RFC 9018): version, time, and SipHash-2-4
 * of the client cookie, these and the client's address under a secret. The cookie proves to a
 * client that the answer comes from the server it asked. No client is refused for a missing or old
 * cookie.
 *
 * Pure: the caller supplies the clock.
 */
#ifndef EDGEWAY_DNS_FORWARD_COOKIE_H
#define EDGEWAY_DNS_FORWARD_COOKIE_H

#include "dns/answer/message.h"
#include "dns/forward/client.h"

enum { COOKIE_SECRET_BYTES = 16 };

/* Fills in the server cookie behind the client cookie. */
void cookie_sign(uint8_t cookie[DNS_COOKIE_BYTES], const uint8_t secret[COOKIE_SECRET_BYTES],
	const struct dns_client *client, uint32_t now_s);

#endif
