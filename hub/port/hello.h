/*
 * What a TLS ClientHello, or a request without TLS, asks for (RFC 8446 section 4.1.2, ALPN RFC
 * 7301), from its first bytes, which may come in pieces and be cut into records as the client
 * likes. Pure; a leaf of hub/port/peek, fed with bytes of strangers.
 *
 *	switch (hello_read(bytes, n, &need)) { case HELLO_MORE: wait for `need` bytes
 */
#ifndef EDGEWAY_HUB_PORT_HELLO_H
#define EDGEWAY_HUB_PORT_HELLO_H

#include "base/core/util.h"

enum {
	HELLO_MAX = 16 * 1024, /* of a message that is looked at, records included */
};

enum hello {
	HELLO_MORE, /* not decided yet */
	/* anything else, also what is no TLS: whoever serves it will say what is wrong */
	HELLO_OTHER,
	HELLO_REVERSE, /* a tunnel, cloud to edge */
	HELLO_FORWARD, /* the same, edge to cloud */
	HELLO_PEER, /* another replica of the hub */
	/* a websocket that carries one of the others, straight from the node (CARRIER_ALPN) */
	HELLO_CARRIER,
	HELLO_CARRIER_NAMED, /* the same, of a proxy that asks for CARRIER_SNI */
	HELLO_PLAIN, /* a request of HTTP without TLS: the same, of a proxy */
};

/* need: HELLO_MORE: how many bytes from the beginning there must be at least, n < *need <=
 * HELLO_MAX. */
enum hello hello_read(const uint8_t *bytes, size_t n, size_t *need);

enum { HELLO_NAME_MAX = 253 };
/* Does it begin like TLS? */
bool hello_is_tls(const uint8_t *bytes, size_t n);
/* The server's name that it asks for (SNI, RFC 6066 section 3): 1; 0: more bytes are needed;
 * -ENOENT: it names none that could be a host's, or is no TLS. */
int hello_name(const uint8_t *bytes, size_t n, char name[HELLO_NAME_MAX + 1]);

#endif
