/*
 * edgewayctl resolve and trace: what a name means on this node, and what becomes of a request. Both
 * really ask: the agent's own DNS by libc's resolver with the host's search list, and for a trace
 * the service, from this machine, as its own processes would. Answers are JSON like the daemons'
 * own, so that they are shown and printed by the same code.
 *
 *	rc = ctl_resolve(socket, "web.shop", &answer, &err);	// {"name","asked","server","rcode","ms","records":[...],"meaning"}
 *	rc = ctl_trace(socket, "http://web.shop/x", &answer, &err);	// tcp://, udp://, grpc://; an address instead of a name
 */
#ifndef EDGEWAY_SRC_CTL_CTL_RESOLVE_H
#define EDGEWAY_SRC_CTL_CTL_RESOLVE_H

#include "base/conf/tree.h"
#include "base/core/buf.h"
#include "base/core/err.h"

enum { LOOKUP_TEXT = 1025 };

struct lookup {
	char asked[LOOKUP_TEXT]; /* the name that had the answer, after the search list */
	char address[16]; /* the first A record, "" none */
	const char *rcode; /* NOERROR, NXDOMAIN, ..., or "no answer" */
	double ms;
	unsigned n;
	struct {
		char type[8], value[LOOKUP_TEXT];
		uint32_t ttl;
	} records[16];
};

/* GET of the daemon's, parsed; freed by tree_free. */
int ctl_ask_json(const char *socket, const char *target, struct tree **to, struct err *err);
/* CLOCK_MONOTONIC. */
double ctl_now_ms(void);
/* server: IP:PORT. Only what is no question of DNS is an error. */
int ctl_lookup(const char *server, const char *name, struct lookup *to, struct err *err);
/* The service with this fake IP or ClusterIP, NULL: none. services: the agent's /debug/services. */
const struct tree_node *ctl_service_at(const struct tree_node *services, const char *address);
int ctl_resolve(const char *socket, const char *name, struct buf *answer, struct err *err);
int ctl_trace(const char *socket, const char *url, struct buf *answer, struct err *err);

#endif
