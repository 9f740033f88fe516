/*
 * What nodes themselves report about a service's endpoints, for the viewers of the service
 * (hub/page/web.h). A node is asked on its websocket (doc/protocol.md, "Questions"), by this hub
 * or, if it is connected to another replica, by that one. No access right is needed: the agent
 * reports it to its hub like everything else, and whoever may see the page may see it. Limits:
 * PROBES_AT_ONCE open questions, PROBES_KEPT cached answers, refreshed after PROBE_FRESH_MS while
 * there are viewers. On the hub's loop.
 *
 *	probes_tell(p, "edge-1", "default/web", out);	// what is known now
 *
 *	asks here ─ connected ─► answer
 *	     └ not ─► asks replicas, one after the other ─► answer, or: connected to no hub
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_PROBE_H
#define EDGEWAY_HUB_PAGE_WEB_PROBE_H

#include "base/core/metric.h"
#include "hub/port/questions.h"
#include "hub/replicas/peers.h"

enum {
	PROBES_AT_ONCE = 64,
	PROBES_KEPT = 1000,
	PROBE_MS = 5000, /* timeout of an answer */
	PROBE_FRESH_MS = 3000,
	PROBE_AWAY_MS =
		10 * 1000, /* until replicas are asked again about a node that none of them had */
	PROBE_KEEP_MS = 30 * 1000, /* lifetime of an answer that nobody views */
};

struct probes;

/* As nodes_ask. */
typedef int probes_ask_fn(void *arg, const char *node, const char *service, struct question *q);

struct probes_config {
	struct loop *loop;
	struct peers *peers; /* outlives it */
	probes_ask_fn *ask;
	void *arg;
};

struct probes *probes_new(const struct probes_config *config);
void probes_free(struct probes **p);
/* Discards all answers, and ignores those to open questions. */
void probes_forget(struct probes *p);
/* {"said":[{"port","address","node","health"},...],"known":true,"more":0,"at":"hub-2"} or {"why":"a
 * sentence","at":""}; null: not known yet. at: the replica that the node is connected to, "": this
 * one. */
void probes_tell(struct probes *p, const char *node, const char *service, struct buf *out);
void probes_metrics(const struct probes *p, struct metrics *m);

#endif
