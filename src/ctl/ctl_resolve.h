/*
 * edgewayctl resolve and trace: what a name means on this node, and what happens to a request. Both
 * send real traffic: a query to the agent's own DNS through libc's resolver with the host's search
 * list, and for a trace a request to the service from this machine, as its own processes would.
 * Results are JSON like the daemons', so that the same code shows and prints them.
 *
 *	// {"name","asked","server","rcode","ms","records":[...],"meaning"}
 *	rc = ctl_resolve(socket, "web.shop", &answer, &err);
 *	// also tcp://, udp://, grpc://; also an address instead of a name
 *	rc = ctl_trace(socket, "http://web.shop/x", &answer, &err);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_RESOLVE_H
#define EDGEWAY_SRC_CTL_CTL_RESOLVE_H

#include "base/conf/tree.h"
#include "base/core/buf.h"
#include "base/core/err.h"
#include <netinet/in.h>

enum { LOOKUP_TEXT = 1025 };

struct lookup {
	char asked[LOOKUP_TEXT]; /* the name that was answered, after applying the search list */
	char address[INET6_ADDRSTRLEN]; /* the first A record, "": none */
	const char *rcode; /* NOERROR, NXDOMAIN, ..., or "no answer" */
	double ms;
	unsigned n;
	struct {
		char type[8], value[LOOKUP_TEXT];
		uint32_t ttl;
	} records[16];
};

/* Sends a GET to the daemon and parses the result; freed by tree_free. */
int ctl_ask_json(const char *socket, const char *target, struct tree **to, struct err *err);
/* CLOCK_MONOTONIC. */
double ctl_now_ms(void);
/* server: IP:PORT. Returns an error only if `name` cannot be a DNS query. */
int ctl_lookup(const char *server, const char *name, struct lookup *to, struct err *err);
/* The service with this fake IP or ClusterIP, NULL: none. services: the agent's /debug/services. */
const struct tree_node *ctl_service_at(const struct tree_node *services, const char *address);
int ctl_resolve(const char *socket, const char *name, struct buf *answer, struct err *err);
int ctl_trace(const char *socket, const char *url, struct buf *answer, struct err *err);

#endif
