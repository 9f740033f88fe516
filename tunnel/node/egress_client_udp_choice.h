/*
 * Which endpoint a flow of datagrams goes to, among those that only the hub reaches. Pure. The one
 * with the highest hash of endpoint and client (rendezvous), as the kernel draws for endpoints that
 * it dials itself (iptables/maps/slots.h): a client that was quiet for long finds its endpoint
 * again, and one that goes takes only its own clients along. One that did not answer is passed over
 * for a while where there are others.
 *
 *	e = choice_pick(port, &(struct choice_ask){.key = key, .tried = tried, .n_tried = n, .ill = &ill, .now_ms = now});
 *	choice_failed(&ill, &e->ip, e->port, now);
 */
#ifndef EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_UDP_CHOICE_H
#define EDGEWAY_TUNNEL_NODE_EGRESS_CLIENT_UDP_CHOICE_H

#include "model/service.h"

enum { CHOICE_ILL = 8, CHOICE_ILL_MS = 10 * 1000 };

struct choice_place {
	struct in6_addr ip; /* as in struct endpoint */
	uint16_t port;
};

struct choice_ill { /* all zero at first */
	struct choice_place places[CHOICE_ILL];
	uint64_t until_ms[CHOICE_ILL];
	unsigned next;
};

struct choice_ask {
	uint64_t key; /* hash of the client */
	const struct choice_place *tried; /* not these */
	unsigned n_tried;
	const struct choice_ill *ill;
	uint64_t now_ms;
};

/* Has the port endpoints, none of which this node could send to by itself, and some that the hub
 * reaches? */
bool choice_needs_hub(const struct service_port *p);
/* NULL: there is none that was not tried. */
const struct endpoint *choice_pick(const struct service_port *p, const struct choice_ask *ask);
bool choice_has(const struct service_port *p, const struct choice_place *place);
void choice_failed(struct choice_ill *ill, const struct choice_place *place, uint64_t now_ms);

#endif
