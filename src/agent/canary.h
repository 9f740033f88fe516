/*
 * Asks our own DNS, through its socket as a client does, whether it answers: one query (the cluster
 * domain's SOA) every CANARY_EVERY_MS, each from a port of its own so that all workers have their
 * turn. Any answer with the query's id counts. An agent that is frozen or whose workers hang hears
 * nothing, and what depends on the answer (the capture of other name servers) ends by itself. Loop
 * 0 only.
 *
 *	canary_start(&c, &config);	// nothing happens yet
 *	canary_ask(c, address);	// at once, then again and again; 0: stop asking
 */
#ifndef EDGEWAY_SRC_AGENT_CANARY_H
#define EDGEWAY_SRC_AGENT_CANARY_H

#include "base/core/loop.h"

enum { CANARY_EVERY_MS = 3000 };

struct canary;

struct canary_config {
	struct loop *loop;
	uint16_t port;
	const char *domain; /* the cluster's, dots only between labels; needed in the call only */
	uint32_t mark; /* SO_MARK of the queries */
	loop_fn *answered;
	void *arg;
};

void canary_start(struct canary **c, const struct canary_config *config);
void canary_ask(struct canary *c, uint32_t address); /* host byte order */
void canary_stop(struct canary **c);

#endif
