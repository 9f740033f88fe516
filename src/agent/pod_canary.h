/*
 * The mesh as pods have it, tried all the time: a port of the pods' bridge that is ours
 * (iptables/host/bridge_port.h) has an address at the end of the bridge's range and asks, as a pod
 * would, the mesh address for the name of a service, connects to the service's fake IP, and waits
 * for the listener's answer. So it passes what pods' packets pass: the bridge, the rules that come
 * first, the INPUT rules, our translation, and back. The listener answers it by itself (lb_canary),
 * with a number that nobody else knows: no endpoint and no pod hears of it, nor do the counters of
 * requests.
 *
 * Every POD_CANARY_EVERY_MS one query and one connection of half a dozen packets; an answer that
 * does not come is asked for again within the round, and only the second round in a row that fails
 * counts. An address for which somebody else sends ARP, before or while it is used, is left to them
 * at once, and the next one below is taken. Without /dev/net/tun, or where mesh.interface is no
 * bridge, it is off, and says so. Loop 0 only.
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
	char name[POD_CANARY_NAME_MAX]; /* as asked of DNS: without the cluster domain */
	uint32_t ip; /* fake, host byte order */
	uint16_t port;
};

struct pod_canary_config {
	struct loop *loop;
	const char *interface; /* the bridge's; outlives the canary */
	const char *domain; /* the cluster's; the same */
	uint16_t dns_port;
	bool (*choose)(void *arg, struct pod_canary_target *to); /* false: there is none */
	/* From here on the listener answers connections of this address and port with this number,
	 * in hexadecimal; ip 0: no more. */
	void (*expect)(void *arg, uint32_t ip, uint16_t port, uint64_t number);
	void *arg;
};

void pod_canary_start(struct pod_canary **c, const struct pod_canary_config *config);
void pod_canary_use(struct pod_canary *c, uint32_t address); /* host byte order */
void pod_canary_stop(struct pod_canary **c);
/* Has what it tries not worked lately? c NULL: false. */
bool pod_canary_failing(const struct pod_canary *c);
/* JSON object: {"state","address","off","dns","calls",...}; c NULL: null. */
void pod_canary_state(const struct pod_canary *c, struct buf *out);

#endif
