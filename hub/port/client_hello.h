/*
 * What a TLS ClientHello, or a request without TLS, asks for (RFC 8446 section 4.1.2, ALPN RFC
 * 7301), from its first bytes, which may come in pieces and be cut into records as the client
 * likes. Pure; a leaf of hub/port/alpn_mux, fed with bytes of strangers.
 *
 *	switch (client_hello_read(bytes, n, &need)) { case CLIENT_HELLO_MORE: wait for `need` bytes
 */
#ifndef EDGEWAY_HUB_PORT_CLIENT_HELLO_H
#define EDGEWAY_HUB_PORT_CLIENT_HELLO_H

#include "base/core/util.h"

enum {
	CLIENT_HELLO_MAX = 16 * 1024, /* of a message that is looked at, records included */
};

enum client_hello {
	CLIENT_HELLO_MORE, /* not decided yet */
	/* anything else, also what is no TLS: whoever serves it will say what is wrong */
	CLIENT_HELLO_OTHER,
	CLIENT_HELLO_REVERSE, /* a tunnel, cloud to edge */
	CLIENT_HELLO_FORWARD, /* the same, edge to cloud */
	CLIENT_HELLO_PEER, /* another replica of the hub */
	/* a websocket that carries one of the others, straight from the node (CARRIER_ALPN) */
	CLIENT_HELLO_CARRIER,
	CLIENT_HELLO_CARRIER_NAMED, /* the same, of a proxy that asks for CARRIER_SNI */
	CLIENT_HELLO_PLAIN, /* a request of HTTP without TLS: the same, of a proxy */
};

/* need: CLIENT_HELLO_MORE: how many bytes from the beginning there must be at least, n < *need <=
 * CLIENT_HELLO_MAX. */
enum client_hello client_hello_read(const uint8_t *bytes, size_t n, size_t *need);

enum { CLIENT_HELLO_NAME_MAX = 253 };
/* Does it begin like TLS? */
bool client_hello_is_tls(const uint8_t *bytes, size_t n);
/* The server's name that it asks for (SNI, RFC 6066 section 3): 1; 0: more bytes are needed;
 * -ENOENT: it names none that could be a host's, or is no TLS. */
int client_hello_name(const uint8_t *bytes, size_t n, char name[CLIENT_HELLO_NAME_MAX + 1]);

#endif
