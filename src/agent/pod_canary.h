/*
 * A continuous self-check of the mesh as pods see it. A port of our own on the pods' bridge
 * (iptables/host/bridge_port.h) has an address at the end of the bridge's range. As a pod would, it
 * asks the mesh address for the name of a service, connects to the service's fake IP, and waits for
 * the listener's response. So it passes everything that pods' packets pass: the bridge, earlier
 * rules, the INPUT rules, our translation, and the way back. The listener itself responds
 * (lb_canary), with a number that nobody else knows: no endpoint or pod sees the check, and the
 * request counters do not count it.
 *
 * Every POD_CANARY_EVERY_MS it sends one query and makes one connection of half a dozen packets. It
 * repeats an unanswered query within the round, and only the second failed round in a row counts.
 * If anybody else sends ARP for its address, before or during use, it gives the address up at once
 * and takes the next one below. Without /dev/net/tun, or if mesh.interface is not a bridge, it is
 * off, and says so. Loop 0 only.
 *
 *	pod_canary_start(&c, &config);	// nothing happens yet
 *	pod_canary_use(c, address);	// of the mesh; 0: off
 */
#ifndef EDGEWAY_SRC_AGENT_POD_CANARY_H
#define EDGEWAY_SRC_AGENT_POD_CANARY_H

#include "base/core/buf.h"
#include "base/core/loop.h"

enum { POD_CANARY_EVERY_MS = 3000, POD_CANARY_NAME_MAX = 256 };

struct pod_canary;

/* A service that our listener serves. */
struct pod_canary_target {
	char name[POD_CANARY_NAME_MAX]; /* as in the DNS query: without the cluster domain */
	uint32_t ip; /* fake IP, host byte order */
	uint16_t port;
};

struct pod_canary_config {
	struct loop *loop;
	const char *interface; /* the bridge's; outlives the canary */
	const char *const
		*others; /* globs, where it has no address; NULL-terminated, may be NULL */
	const char *domain; /* the cluster's; outlives it too */
	uint16_t dns_port;
	bool (*choose)(void *arg, struct pod_canary_target *to); /* false: there is none */
	/* From here on the listener responds to connections from this address and port with this
	 * number, in hexadecimal; ip 0: stop that. */
	void (*expect)(void *arg, uint32_t ip, uint16_t port, uint64_t number);
	void *arg;
};

void pod_canary_start(struct pod_canary **c, const struct pod_canary_config *config);
void pod_canary_use(struct pod_canary *c, uint32_t address); /* host byte order */
void pod_canary_stop(struct pod_canary **c);
/* Returns whether the last rounds failed. c NULL: false. */
bool pod_canary_failing(const struct pod_canary *c);
/* JSON object: {"state","address","off","dns","calls",...}; c NULL: null. */
void pod_canary_state(const struct pod_canary *c, struct buf *out);

#endif
