/*
 * What nodes themselves make of a service's endpoints, for those who look at it (hub/web.h). Their agents are asked at their admin
 * port, through the tunnels, with the rights of him who looks: a rule of access must let him reach NODE:40002, and the node must
 * allow it (tunnel.allow). So the page shows nobody more than he could ask for himself. Bounded: PROBES_AT_ONCE nodes are asked at
 * a time, PROBES_KEPT answers are kept, and asked for anew after PROBE_FRESH_MS while somebody looks. On the hub's loop.
 *
 *	probes_tell(p, &(struct probe_ask){&caller, "edge-1", "default/web"}, out);	// what is known now
 */
#ifndef EDGEWAY_HUB_WEB_PROBE_H
#define EDGEWAY_HUB_WEB_PROBE_H

#include "hub/reach.h"

enum {
	PROBES_AT_ONCE = 16,
	PROBES_KEPT = 400,
	PROBE_PORT = 40002, /* of agents' admin.listen */
	PROBE_BYTES = 256 * 1024,
	PROBE_ENDPOINTS = 500, /* that are told of */
	PROBE_MS = 5000, /* for an answer */
	PROBE_FRESH_MS = 3000,
	PROBE_KEEP_MS = 30 * 1000, /* that nobody looks */
};

struct probes;

struct probe_ask {
	const struct caller *caller;
	const char *node, *service; /* service: NAMESPACE/NAME */
};

struct probes *probes_new(struct loop *loop, struct reach *reach);
void probes_free(struct probes **p);
/* All that is known counts no more, and what is asked now is not waited for. */
void probes_forget(struct probes *p);
/* {"said":[{"port","address","node","health"},...]}, {"why":...} or, not yet known, null. */
void probes_tell(struct probes *p, const struct probe_ask *ask, struct buf *out);

/* What an agent answered, bytes of a whole reply of HTTP/1.1, as the list that probes_tell says. 0, or -EBADMSG: *why says what is wrong, static.
 * A leaf, fed with bytes of nodes. */
int probe_read(const char *data, size_t len, struct buf *said, const char **why);

#endif
