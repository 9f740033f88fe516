/*
 * Door of tunnel/: connections that a node dials and that carry streams the other way
 * (doc/protocol.md, "Tunnel").
 *
 * The hub takes session.h and relay.h: it is the client of HTTP/2 on what a node has dialled. The
 * agent takes link.h, which keeps the connection, and serve.h, which says what an opened stream
 * becomes; allow.h are its rules. vicinity.h is what a node reaches beside itself, and
 * declaration.h how the hub gets to know it. opening.h reads whom a caller's HTTP/2 asks for.
 */
#ifndef EDGEWAY_TUNNEL_TUNNEL_H
#define EDGEWAY_TUNNEL_TUNNEL_H

#include "tunnel/h2/couple.h"
#include "tunnel/h2/opening.h"
#include "tunnel/h2/relay.h"
#include "tunnel/h2/session.h"
#include "tunnel/h2/wire.h"
#include "tunnel/node/agent_query.h"
#include "tunnel/node/allow.h"
#include "tunnel/node/declaration.h"
#include "tunnel/node/link.h"
#include "tunnel/node/outlet.h"
#include "tunnel/node/outlet_udp.h"
#include "tunnel/node/serve.h"
#include "tunnel/node/vicinity.h"
#include "tunnel/udp/dgram.h"
#include "tunnel/udp/dgram_couple.h"
#include "tunnel/udp/udp_door.h"
#include "tunnel/udp/udp_relay.h"

#endif
