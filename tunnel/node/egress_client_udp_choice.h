/*
 * Chooses the endpoint of a flow of datagrams, among those that only the hub reaches. Pure. It
 * picks the highest hash of endpoint and client (rendezvous hashing), as the kernel path does for
 * endpoints that it sends to directly (iptables/maps/slots.h): a client that was idle for long gets
 * the same endpoint again, and when an endpoint goes, only its own clients move. An endpoint that
 * did not answer is avoided for a while if there are others.
 *
 *	e = choice_pick(port, &(struct choice_ask){.key = key, .tried = tried, .n_tried = n, .ill = &ill, .now_ms = now});
 *	choice_failed(&ill, &place, now);
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
	const struct choice_place *tried; /* endpoints not to choose */
	unsigned n_tried;
	const struct choice_ill *ill;
	uint64_t now_ms;
};

/* True if the port has endpoints, this node can send to none of them itself, and the hub reaches
 * some. */
bool choice_needs_hub(const struct service_port *p);
/* NULL: all were tried. */
const struct endpoint *choice_pick(const struct service_port *p, const struct choice_ask *ask);
bool choice_has(const struct service_port *p, const struct choice_place *place);
void choice_failed(struct choice_ill *ill, const struct choice_place *place, uint64_t now_ms);

#endif
