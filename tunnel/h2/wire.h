/*
 * The ALPN names (RFC 7301) that TLS uses to tell tunnel connections from others, and the sizes of
 * frames that fill TLS records. Tunnels run over base/tls/transport.
 */
#ifndef EDGEWAY_TUNNEL_H2_WIRE_H
#define EDGEWAY_TUNNEL_H2_WIRE_H

#include "base/tls/transport.h"

/* Cloud to edge: the node has dialled, the hub is the client of HTTP/2. */
#define TUNNEL_ALPN_REVERSE "edgeway-tunnel-reverse/1"
/* The same, beside a tunnel to another replica of the hub: for streams that find no other way. */
#define TUNNEL_ALPN_STANDBY "edgeway-tunnel-standby/1"
/* Edge to cloud: the node has dialled and is the client of HTTP/2. */
#define TUNNEL_ALPN_FORWARD "edgeway-tunnel/1"
/* A node that is to meet another one directly, across NAT (tunnel/node/rendezvous_line.h). */
#define TUNNEL_ALPN_RENDEZVOUS "edgeway-rendezvous/1"

enum {
	WIRE_FRAME_HEAD = 9, /* RFC 9113 section 4.1 */
	WIRE_PAYLOAD_BYTES =
		TLS_RECORD_BYTES - WIRE_FRAME_HEAD, /* a frame with its header fills one record */
};

#endif
