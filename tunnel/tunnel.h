/*
 * Door of tunnel/: connections that a node dials and that carry streams the other way (doc/protocol.md, "Tunnel").
 *
 * The hub takes session.h and relay.h: it is the client of HTTP/2 on what a node has dialled. The agent takes link.h,
 * which keeps the connection, and serve.h, which says what an opened stream becomes; allow.h are its rules.
 * vicinity.h is what a node reaches beside itself, and declaration.h how the hub gets to know it.
 * opening.h reads whom a caller's HTTP/2 asks for.
 */
#ifndef EDGEWAY_TUNNEL_TUNNEL_H
#define EDGEWAY_TUNNEL_TUNNEL_H

#include "tunnel/agent_query.h"
#include "tunnel/allow.h"
#include "tunnel/couple.h"
#include "tunnel/declaration.h"
#include "tunnel/dgram.h"
#include "tunnel/dgram_couple.h"
#include "tunnel/link.h"
#include "tunnel/opening.h"
#include "tunnel/outlet.h"
#include "tunnel/outlet_udp.h"
#include "tunnel/relay.h"
#include "tunnel/serve.h"
#include "tunnel/session.h"
#include "tunnel/udp_door.h"
#include "tunnel/udp_relay.h"
#include "tunnel/vicinity.h"
#include "tunnel/wire.h"

#endif
