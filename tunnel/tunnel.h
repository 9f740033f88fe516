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

#include "tunnel/h2/h2_preface.h"
#include "tunnel/h2/relay.h"
#include "tunnel/h2/session.h"
#include "tunnel/h2/stream_join.h"
#include "tunnel/h2/wire.h"
#include "tunnel/node/agent_query.h"
#include "tunnel/node/egress_client.h"
#include "tunnel/node/egress_client_udp.h"
#include "tunnel/node/reachability.h"
#include "tunnel/node/reachable_nets.h"
#include "tunnel/node/stream_server.h"
#include "tunnel/node/tunnel_acl.h"
#include "tunnel/node/tunnel_client.h"
#include "tunnel/udp/dgram.h"
#include "tunnel/udp/dgram_couple.h"
#include "tunnel/udp/udp_door.h"
#include "tunnel/udp/udp_relay.h"

#endif
