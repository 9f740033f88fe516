/*
 * Checks through a socket, as a client, that our own DNS answers: one query (the cluster domain's
 * SOA) every DNS_SELFCHECK_EVERY_MS, each from a port of its own so that all workers get their
 * turn; they answer at the IPv6 address too. Any answer with the query's id counts. If the agent is
 * frozen or its workers hang, no answer arrives, and what depends on it (the capture of queries to
 * other name servers) ends by itself. Loop 0 only.
 *
 *	dns_selfcheck_start(&c, &config);	// nothing happens yet
 *	dns_selfcheck_ask(c, address);	// at once, then again and again; 0: stop asking
 */
#ifndef EDGEWAY_SRC_AGENT_DNS_SELFCHECK_H
#define EDGEWAY_SRC_AGENT_DNS_SELFCHECK_H

#include "base/core/loop.h"

enum { DNS_SELFCHECK_EVERY_MS = 3000 };

struct dns_selfcheck;

struct dns_selfcheck_config {
	struct loop *loop;
	uint16_t port;
	/* the cluster's, with dots only between labels; used only during the call */
	const char *domain;
	uint32_t mark; /* SO_MARK of the queries */
	loop_fn *answered;
	void *arg;
};

void dns_selfcheck_start(struct dns_selfcheck **c, const struct dns_selfcheck_config *config);
void dns_selfcheck_ask(struct dns_selfcheck *c, uint32_t address); /* host byte order */
void dns_selfcheck_stop(struct dns_selfcheck **c);

#endif
