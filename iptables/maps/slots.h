/*
 * The endpoints that the kernel selects from for one port of a service, and their weights: a row of
 * slots, each with one endpoint. Pure. The kernel selects a slot by a hash of the client's address
 * and port, or of its address alone. A row has one of a few lengths; the table has a chain for each
 * length.
 *
 * By flow: up to SLOTS_EXACT endpoints have one slot each; with more, each gets at least 8 slots of
 * a longer row, so that no endpoint's share is off by more than an eighth. The hash is not random:
 * a UDP client that was silent until the kernel forgot its flow finds its endpoint again. By
 * address (session affinity): each slot belongs to the endpoint with the highest hash of the two
 * (rendezvous hashing), bounded so that no endpoint gets more than 1.25 of its fair share. When an
 * endpoint goes, only its own clients move, whatever the timeout of the affinity is.
 *
 *	slots_make(&plan, port, &ask);
 *	... plan.slots[0 .. plan.n) ...
 *	slots_fini(&plan);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_SLOTS_H
#define EDGEWAY_IPTABLES_MAPS_SLOTS_H

#include "model/local_callers.h"
#include "model/service.h"

enum { SLOTS_EXACT = 16, SLOTS_SLOTS_MAX = 1024 };

struct slots_target {
	struct in6_addr ip; /* IPv4 as ::ffff:a.b.c.d, as all addresses here */
	uint16_t port;
};

struct slots {
	bool by_client;
	/* only for `callers` and, if `host`, for processes of the node; otherwise for all */
	bool restricted;
	bool host;
	bool external; /* called from outside: n may be 0, then the proxy serves it */
	bool kept; /* external: the source address is kept */
	uint16_t n;
	uint32_t n_callers;
	struct slots_target *slots;
	struct in6_addr *callers; /* addresses of pods, ascending */
};

/* false: it is dead, leave it out. */
typedef bool slots_alive_fn(void *arg, const struct slots_target *t);

/* endpoint_direct with the port. */
bool slots_direct(const struct endpoint *e, bool v6, struct slots_target *t);
struct slots_ask {
	bool v6; /* the family of the clients' packets */
	bool by_client;
	bool local; /* only endpoints of this node */
	slots_alive_fn *alive; /* NULL: all are */
	void *arg;
};
/* Selects the live endpoints of the best tier that has any; if no tier has, all of the best tier. n
 * 0: the kernel can reach no endpoint of the port. */
void slots_make(struct slots *plan, const struct service_port *p, const struct slots_ask *ask);
/* Restricts it to callers of the family that may call the service and all endpoints of the port
 * (service_permits_all). No effect on a service without restriction. callers NULL: none are
 * known. */
void slots_restrict(struct slots *plan, const struct service *s, const struct service_port *p,
	const struct local_callers *callers, bool v6);
/* Whether this address may use the port; false also for processes of the node. */
bool slots_admits(const struct slots *plan, const struct in6_addr *caller);
/* Whether some caller could use `before` but cannot use `after`. */
bool slots_excludes(const struct slots *before, const struct slots *after);
void slots_fini(struct slots *plan);
/* Everything goes to this target. */
void slots_single(struct slots *plan, const struct slots_target *t);
bool slots_same(const struct slots *a, const struct slots *b);
bool slots_has(const struct slots *plan, const struct slots_target *t);

/* The lengths of rows, ascending; ends with 0. */
const uint16_t *slots_lengths(bool by_client);

#endif
