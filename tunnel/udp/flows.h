/*
 * The flows of one UDP socket, found by who sends and to which address: a table of bounded size.
 * Each is in a class that says how long it may be idle; within a class and for each source address
 * they stand in the order of their last datagram. When the socket, or one source, has as many as it
 * may, the one that was idle longest makes room. Pure; entries are part of their owner's struct,
 * who takes them out before they go.
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

struct flow_key { /* all of it counts: no byte may be left unset */
	struct in6_addr client, local; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t scope; /* of a link-local client */
	uint32_t port; /* the client's */
};

enum flow_class {
	FLOW_REFUSED, /* nothing is asked for again so soon */
	FLOW_BRIEF, /* one datagram, and its answer: as DNS has it, there is no more to come */
	FLOW_LASTING,
	FLOW_CLASSES,
};

struct flow_source;

struct flow_entry {
	LIST_ENTRY(flow_entry) same; /* bucket */
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
/* It must be empty. */
void flows_free(struct flows **f);
struct flow_entry *flows_find(const struct flows *f, const struct flow_key *key);
/* Who must go before this one can be added; NULL: there is room. */
struct flow_entry *flows_victim(const struct flows *f, const struct flow_key *key);
/* The key must be new; FLOW_LASTING at first. */
void flows_add(struct flows *f, struct flow_entry *e, const struct flow_key *key, uint64_t now_ms);
/* A datagram went either way. */
void flows_touch(struct flows *f, struct flow_entry *e, enum flow_class class, uint64_t now_ms);
void flows_remove(struct flows *f, struct flow_entry *e);
struct flow_entry *flows_expired(const struct flows *f, uint64_t now_ms);
/* From now on no class may be idle for longer. */
void flows_hurry(struct flows *f, uint64_t idle_ms);
unsigned flows_count(const struct flows *f);
/* All of them, in no particular order; begin with NULL. */
struct flow_entry *flows_next(const struct flows *f, const struct flow_entry *e);

#endif
