/*
 * Shared by the files of egress_client_udp: egress_client_udp.c (ports and their sockets),
 * egress_client_udp_flow.c (flows and their endpoints) and egress_client_udp_tell.c (state,
 * metrics). No other file includes it.
 */
#ifndef EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_UDP_PRIVATE_H
#define EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_UDP_PRIVATE_H

#include <sys/queue.h>

#include "base/os/ingress_interface.h"
#include "model/local_callers.h"
#include "model/table.h"
#include "tunnel/node/egress_client_udp.h"
#include "tunnel/node/egress_client_udp_choice.h"
#include "tunnel/udp/udp_door.h"

enum { EGRESS_CLIENT_UDP_TRIES = 3, EGRESS_CLIENT_UDP_CLIENTS = 512 };

struct egress_client_port {
	struct table_node node; /* by service and number */
	TAILQ_ENTRY(egress_client_port) touched; /* since the last settle */
	struct egress_client_udp *of;
	struct service *service; /* the current version; holds a reference */
	const struct service_port *port; /* of that service */
	struct udp_door *door; /* NULL: not requested yet, or it cannot be opened */
	struct choice_ill ill;
	bool is_touched, stale;
};

struct egress_client_udp {
	struct egress_client_udp_config config;
	uint32_t address;
	struct local_callers *callers; /* of the snapshot in use; NULL: none are known */
	struct table ports;
	TAILQ_HEAD(, egress_client_port) touched;
	struct ingress_interface arrival;
	uint8_t *buffer; /* for all doors; NULL: there was no door yet */
	bool draining;
	unsigned n_flows; /* being opened, or open */
	unsigned of_clients
		/* of those, per hash of the client: a few clients may share one count */
		[EGRESS_CLIENT_UDP_CLIENTS];
	uint64_t seed; /* of that hash */
	uint64_t opened;
	struct dgram_tally past; /* counters of closed doors */
};

struct egress_client_flow { /* a flow's `own` while it is being opened or open */
	struct egress_client_port *port;
	struct udp_flow *flow;
	struct egress_client_trip *trip;
	unsigned *share; /* its client's count in of_clients */
	struct choice_place tried[EGRESS_CLIENT_UDP_TRIES]; /* the last one is in use */
	unsigned n_tried;
};

/* --- egress_client_udp.c -------------------------------------------------------------------- */
/* As table_walk. */
struct egress_client_port *egress_client_udp_next(
	const struct egress_client_udp *u, size_t *slot, const struct egress_client_port *p);

/* --- egress_client_udp_flow.c --------------------------------------------------------------- */
/* arg of the door: struct egress_client_port. */
extern const struct udp_door_events outlet_udp_events;
/* Ends flows whose endpoint the port no longer has, and flows of callers that may no longer call
 * it. */
void egress_client_flows_settle(struct egress_client_port *p);

#endif
