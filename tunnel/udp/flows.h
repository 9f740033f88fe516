/*
 * The flow table of one UDP socket: bounded, keyed by the sender and the local address. Each flow
 * is in a class that sets its idle timeout; within a class, and for each source address, flows are
 * ordered by their last datagram. When one source has reached its limit, its flow that was idle
 * longest is evicted; at the limit of the socket, first a refused flow, else the one that was idle
 * longest. Pure; entries are embedded in their owner's struct, and the owner removes them before
 * freeing it.
 *
 *	e = flows_find(flows, &key);
 *	while (e == NULL && (victim = flows_victim(flows, &key)) != NULL)
 *		end_flow(victim);	// calls flows_remove
 *	flows_add(flows, &mine->entry, &key, now_ms);
 *	flows_touch(flows, e, FLOW_BRIEF, now_ms);
 *	while ((e = flows_expired(flows, now_ms)) != NULL)
 *		end_flow(e);
 */
#ifndef EDGEWAY_TUNNEL_UDP_FLOWS_H
#define EDGEWAY_TUNNEL_UDP_FLOWS_H

#include <netinet/in.h>
#include <sys/queue.h>

#include "base/core/util.h"

struct flow_key { /* all bytes count: leave none unset */
	struct in6_addr client, local; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t scope; /* scope ID of a link-local client */
	uint32_t port; /* the client's */
};

enum flow_class {
	FLOW_REFUSED, /* turned away: no new attempt so soon */
	FLOW_BRIEF, /* one datagram and its answer, as in DNS: no more is expected */
	FLOW_LASTING,
	FLOW_CLASSES,
};

struct flow_source;

struct flow_entry {
	LIST_ENTRY(flow_entry) same; /* hash bucket */
	TAILQ_ENTRY(flow_entry) age, of;
	struct flow_source *source;
	struct flow_key key;
	enum flow_class class;
	uint64_t moved_ms;
};

struct flows_limits {
	unsigned most, of_source;
	uint64_t idle_ms[FLOW_CLASSES];
};

struct flows;

struct flows *flows_new(const struct flows_limits *limits);
/* The table must be empty. */
void flows_free(struct flows **f);
struct flow_entry *flows_find(const struct flows *f, const struct flow_key *key);
/* The flow that must go before this one can be added; NULL: there is room. */
struct flow_entry *flows_victim(const struct flows *f, const struct flow_key *key);
/* The key must be new; the class is FLOW_LASTING at first. */
void flows_add(struct flows *f, struct flow_entry *e, const struct flow_key *key, uint64_t now_ms);
/* A datagram passed in either direction. */
void flows_touch(struct flows *f, struct flow_entry *e, enum flow_class class, uint64_t now_ms);
void flows_remove(struct flows *f, struct flow_entry *e);
struct flow_entry *flows_expired(const struct flows *f, uint64_t now_ms);
/* From now on, no idle timeout is longer than this. */
void flows_hurry(struct flows *f, uint64_t idle_ms);
unsigned flows_count(const struct flows *f);
/* Iterates over all flows, in no particular order; start with NULL. */
struct flow_entry *flows_next(const struct flows *f, const struct flow_entry *e);

#endif
