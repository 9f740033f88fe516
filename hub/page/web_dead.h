/*
 * Endpoints that nodes find dead, for the start of the hub's page (hub/page/web.h). While there are
 * viewers, each node that is connected here is asked every DEAD_NODE_MS about the endpoints of one
 * service, another one each time and another one than its neighbours (doc/protocol.md,
 * "Questions"). With as many nodes as services each service is asked about within that time, and a
 * node's link carries 100 bytes a second. A service with dead endpoints is asked about again every
 * DEAD_AGAIN_MS. Limits: DEAD_AT_ONCE questions wait, DEAD_KEPT pairs of service and node are
 * remembered, at most for DEAD_KEEP_MS. On the hub's loop.
 *
 *	dead_sweep(d, survey, now_ms);			// each second
 *	n = dead_list(d, &list);			// by service, then node
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_DEAD_H
#define EDGEWAY_HUB_PAGE_WEB_DEAD_H

#include "hub/page/web_probe.h"
#include "hub/page/web_survey.h"

enum {
	DEAD_AT_ONCE = 64,
	DEAD_KEPT = 200,
	DEAD_NODE_MS = 10 * 1000,
	DEAD_AGAIN_MS = 10 * 1000,
	DEAD_ASK_MS = 5 * 1000, /* timeout of an answer */
	DEAD_KEEP_MS = 60 * 1000, /* an entry's lifetime without an answer */
};

struct dead;

/* A node's report on a service; texts are valid until the loop's next turn. */
struct dead_row {
	char *service, *node;
	unsigned endpoints; /* ejected, or failing their health check */
	uint64_t heard_ms, asked_ms; /* of the loop */
};

struct dead *dead_new(probes_ask_fn *ask, void *arg);
void dead_free(struct dead **d);
/* Discards all results, and ignores the answers to open questions. */
void dead_forget(struct dead *d);
void dead_sweep(struct dead *d, const struct survey *s, uint64_t now_ms);
size_t dead_list(const struct dead *d, const struct dead_row **list);

#endif
