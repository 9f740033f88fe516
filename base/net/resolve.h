/*
 * DNS client (c-ares): raw queries for dns/forward/forward and host names for meta/. Bound to one
 * loop. It never reads resolv.conf; the owner gives the servers. Callbacks never run before the
 * call returns; they may query again and may call resolve_free. Queries use a few source ports at a
 * time, which are replaced continuously.
 *
 *	struct resolve_config c = {.servers = list, .n_servers = n, .timeout_ms = 1000, .tries = 2};
 *	resolve_new(&r, loop, &c, err);
 *	resolve_host(r, "hub.example.com", 10000, on_found, me);
 *	...
 *	resolve_free(&r);
 */
#ifndef EDGEWAY_BASE_NET_RESOLVE_H
#define EDGEWAY_BASE_NET_RESOLVE_H

#include "base/core/loop.h"
#include "base/core/sock.h"

struct resolve;
struct resolve_config {
	const struct addr *servers; /* port 0 means 53 */
	size_t n_servers;
	unsigned timeout_ms; /* per try */
	unsigned tries;
	uint32_t mark; /* SO_MARK of its sockets, 0: none */
	/* SERVFAIL, REFUSED and NOTIMP count as answers (the owner picks the next server itself);
	 * otherwise the next of `servers` is asked. */
	bool every_rcode;
	bool tcp; /* never UDP: an off-path attacker cannot forge answers */
};
/* status 0 with the answer's bytes, or -ETIMEDOUT, -ECONNREFUSED, -ECANCELED (being freed), -EIO;
 * for hosts also -ENOENT: the name does not exist. */
typedef void resolve_answer_fn(void *arg, int status, const uint8_t *answer, size_t len);
typedef void resolve_host_fn(void *arg, int status, const struct addr *addrs, size_t n);

int resolve_new(struct resolve **r, struct loop *loop, const struct resolve_config *config,
	struct err *err);
void resolve_free(struct resolve **r); /* answers open queries with -ECANCELED first */
/* A whole DNS query message that ends in an OPT record without options (11 bytes: c-ares removes
 * them for a server that does not know EDNS). It is sent with a new random id, which the answer has
 * too. Over TCP when truncated. */
void resolve_query(
	struct resolve *r, const uint8_t *query, size_t len, resolve_answer_fn *fn, void *arg);
/* When a server last sent what answers no open query of resolve_query (loop_now_ms, 0: never): no
 * DNS message, or one with another question or id. */
uint64_t resolve_stray_ms(const struct resolve *r);
/* Resolves numeric text, then by /etc/hosts, then by the servers; the results have this port. */
void resolve_host(
	struct resolve *r, const char *name, uint16_t port, resolve_host_fn *fn, void *arg);

#endif
