/*
 * DNS client (c-ares): raw queries for dns/forward and host names for meta/. On one loop; never reads
 * resolv.conf itself, the owner gives the servers. Callbacks never come before the call has returned.
 */
#ifndef EDGEWAY_BASE_RESOLVE_H
#define EDGEWAY_BASE_RESOLVE_H

#include "base/loop.h"
#include "base/sock.h"

struct resolve;
struct resolve_config {
	const struct addr *servers; /* port 0 means 53 */
	size_t n_servers;
	unsigned timeout_ms; /* per try */
	unsigned tries;
	uint32_t mark; /* SO_MARK of its sockets, 0: none */
};
/* status 0 with the answer's bytes, or -ETIMEDOUT, -ECONNREFUSED, -ECANCELED (being freed), -EIO. */
typedef void resolve_answer_fn(void *arg, int status, const uint8_t *answer, size_t len);
typedef void resolve_host_fn(void *arg, int status, const struct addr *addrs, size_t n);

int resolve_new(struct resolve **r, struct loop *loop, const struct resolve_config *config, struct err *err);
void resolve_free(struct resolve **r); /* answers what is open with -ECANCELED first */
/* A whole DNS query message; c-ares puts an id of its own in. */
void resolve_query(struct resolve *r, const uint8_t *query, size_t len, resolve_answer_fn *fn, void *arg);
/* Numeric text, then /etc/hosts, then the servers; port goes into the results. */
void resolve_host(struct resolve *r, const char *name, uint16_t port, resolve_host_fn *fn, void *arg);

#endif
