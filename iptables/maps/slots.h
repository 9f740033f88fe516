/*
 * Which endpoints the kernel picks from for one port of a service, and with what odds: a row of
 * slots, each with one endpoint. Pure. The kernel draws a slot by a hash of the client's address
 * and port, or of its address alone, so a row has one of a few lengths, for each of which the table
 * has a chain.
 *
 * By flow: up to SLOTS_EXACT endpoints have a slot each; of more each gets at least 8 slots of a
 * longer row, so that no endpoint's share is off by more than an eighth. Not by chance: a UDP
 * client that was quiet until the kernel forgot its flow finds its endpoint again. By address
 * (session affinity): each slot belongs to the endpoint with the highest hash of the two
 * (rendezvous), bounded so that nobody gets more than 1.25 of a fair share. An endpoint that goes
 * takes only its own clients along, whatever the timeout of the affinity is.
 *
 *	slots_make(&plan, port, &options);
 *	... plan.slots[0 .. plan.n) ...
 *	slots_fini(&plan);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_SLOTS_H
#define EDGEWAY_IPTABLES_MAPS_SLOTS_H

#include "model/local_callers.h"
#include "model/service.h"

enum { SLOTS_EXACT = 16, SLOTS_SLOTS_MAX = 1024 };

struct slots_target {
	uint32_t ip; /* host byte order */
	uint16_t port;
};

struct slots {
	bool by_client;
	/* for `callers` and, where `host` says so, for processes of the node; else for all */
	bool restricted;
	bool host;
	uint16_t n;
	uint32_t n_callers;
	struct slots_target *slots;
	uint32_t *callers; /* addresses of pods, host byte order, ascending */
};

/* false: leave it out, it is dead. */
typedef bool slots_alive_fn(void *arg, const struct slots_target *t);

/* Can the kernel translate to it? Not through a tunnel, to IPv6 or to this machine's loopback. */
bool slots_direct(const struct endpoint *e);
struct slots_target slots_target(
	const struct endpoint *e); /* of one for which slots_direct holds */
/* Endpoints of the best tier that has a live one; if none has, those of the best tier as if they
 * were alive. n 0: the port has no endpoint that the kernel could reach. */
void slots_make(struct slots *plan, const struct service_port *p, bool by_client,
	slots_alive_fn *alive, void *arg);
/* Only for those who may call the service and all endpoints of the port (service_permits_all).
 * Nothing for a service that everybody may call. callers NULL: none are known. */
void slots_restrict(struct slots *plan, const struct service *s, const struct service_port *p,
	const struct local_callers *callers);
/* May this address use the port? false also for processes of the node. */
bool slots_admits(const struct slots *plan, uint32_t caller);
/* Did somebody use `before` who may not use `after`? */
bool slots_excludes(const struct slots *before, const struct slots *after);
void slots_fini(struct slots *plan);
/* Everything goes to this one. */
void slots_single(struct slots *plan, const struct slots_target *t);
bool slots_same(const struct slots *a, const struct slots *b);
bool slots_has(const struct slots *plan, const struct slots_target *t);

/* Lengths of rows that there are, ascending; 0 ends. */
const uint16_t *slots_lengths(bool by_client);

#endif
