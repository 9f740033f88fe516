/*
 * Parses the start of a TLS ClientHello, or of a request without TLS, and tells what the connection
 * is (RFC 8446 section 4.1.2, ALPN RFC 7301). The bytes may come in pieces and be split into
 * records in any way. Pure; used by hub/port/alpn_mux, with untrusted bytes.
 *
 *	switch (client_hello_read(bytes, n, &need)) { case CLIENT_HELLO_MORE: wait for `need` bytes
 */
#ifndef EDGEWAY_HUB_PORT_CLIENT_HELLO_H
#define EDGEWAY_HUB_PORT_CLIENT_HELLO_H

#include "base/core/util.h"

enum {
	CLIENT_HELLO_MAX = 16 * 1024, /* longest message that is parsed, records included */
};

enum client_hello {
	CLIENT_HELLO_MORE, /* undecided: more bytes are needed */
	/* anything else, including what is not TLS: the server behind reports the error */
	CLIENT_HELLO_OTHER,
	CLIENT_HELLO_REVERSE, /* a tunnel, cloud to edge */
	CLIENT_HELLO_STANDBY, /* the same, a second one of the node */
	CLIENT_HELLO_FORWARD, /* the same, edge to cloud */
	CLIENT_HELLO_RENDEZVOUS, /* a node that is to meet another one (hub/replicas/rendezvous) */
	CLIENT_HELLO_PEER, /* another replica of the hub */
	/* a websocket that carries one of the others, directly from the node (CARRIER_ALPN) */
	CLIENT_HELLO_CARRIER,
	CLIENT_HELLO_CARRIER_NAMED, /* the same, through a proxy that asks for CARRIER_SNI */
	CLIENT_HELLO_PLAIN, /* an HTTP request without TLS: the same, through a proxy */
};

/* need: with CLIENT_HELLO_MORE, the minimum number of bytes counted from the beginning, n < *need
 * <= CLIENT_HELLO_MAX. */
enum client_hello client_hello_read(const uint8_t *bytes, size_t n, size_t *need);

enum { CLIENT_HELLO_NAME_MAX = 253 };
/* True if the bytes begin like TLS. */
bool client_hello_is_tls(const uint8_t *bytes, size_t n);
/* The requested server name (SNI, RFC 6066 section 3): 1; 0: more bytes are needed; -ENOENT: there
 * is none that could be a host name, or this is not TLS. */
int client_hello_name(const uint8_t *bytes, size_t n, char name[CLIENT_HELLO_NAME_MAX + 1]);

#endif
