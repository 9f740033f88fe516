/*
 * Public header of tunnel/: connections that a node dials and on which streams run in either
 * direction (doc/protocol.md, "Tunnel").
 *
 * The hub uses session.h and relay.h: it is the HTTP/2 client on connections that nodes have
 * dialled. The agent uses tunnel_client.h, which keeps the connection open, and stream_server.h,
 * which serves the streams that the hub opens; tunnel_acl.h holds its rules. reachable_nets.h
 * describes the networks that a node reaches besides itself, reachability.h announces them to the
 * hub. egress_client.h opens streams from the node to the hub, or to the endpoint's own node:
 * node_peers.h has the sessions with other nodes' agents, node_door.h accepts theirs. floods.h has
 * the nodes that flood a hub or another node. h2_preface.h reads which authority an HTTP/2 client
 * asks for.
 */
#ifndef EDGEWAY_TUNNEL_TUNNEL_H
#define EDGEWAY_TUNNEL_TUNNEL_H

#include "base/http/h2_preface.h"
#include "tunnel/h2/relay.h"
#include "tunnel/h2/session.h"
#include "tunnel/h2/wire.h"
#include "tunnel/node/agent_query.h"
#include "tunnel/node/egress_client.h"
#include "tunnel/node/egress_client_udp.h"
#include "tunnel/node/floods.h"
#include "tunnel/node/hole_punch.h"
#include "tunnel/node/node_door.h"
#include "tunnel/node/node_peers.h"
#include "tunnel/node/reachability.h"
#include "tunnel/node/reachable_nets.h"
#include "tunnel/node/rendezvous_line.h"
#include "tunnel/node/stream_server.h"
#include "tunnel/node/tunnel_acl.h"
#include "tunnel/node/tunnel_client.h"
#include "tunnel/udp/dgram.h"
#include "tunnel/udp/stream_join.h"
#include "tunnel/udp/udp_door.h"
#include "tunnel/udp/udp_relay.h"

#endif
