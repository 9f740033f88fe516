/*
 * What this node's loops want to know of pods by their address: answered from the snapshot, from
 * what the hub answered a moment ago, or by the hub. Clients share what the hub allows this node,
 * so that none of them leaves nothing to the others; names of addresses (PTR) have an allowance of
 * their own. A pod that the hub knows comes as a view by the usual way (meta/state/apply), and the
 * answer waits until that is in use. If there are too many such views, the one that was not used
 * for the longest time makes room. Loop 0 only.
 *
 *	pod_asks_ask(p, ask);		// answers now or within POD_ASKS_MS
 *	pod_asks_look(p);		// another snapshot is in use
 */
#ifndef EDGEWAY_META_CLIENT_POD_ASKS_H
#define EDGEWAY_META_CLIENT_POD_ASKS_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "model/pod_ask.h"
#include "model/snapshot.h"

struct pod_asks;

enum {
	POD_ASKS_MS = 2500, /* for an answer */
	POD_ASKS_NONE_MS = 5000, /* that there is no such pod is believed so long, */
	POD_ASKS_NAME_MS = 30000, /* and a name */
	POD_ASKS_TROUBLE_MS = 5 * 60 * 1000, /* the state says so long that one was not answered */
	POD_ASKS_MOST = 256, /* under way; clients share them (base/core/fair_share) */
	POD_ASKS_KEPT = 1024, /* answers of the hub */
	/* Questions to the hub of one client, and of all: less than the hub takes of a node
	 * (hub/sync/node_session_pods). */
	POD_ASKS_PER_S = 10,
	POD_ASKS_BURST = 40,
	POD_ASKS_ALL_PER_S = 40,
	POD_ASKS_ALL_BURST = 160,
	POD_NAMES_PER_S = 5,
	POD_NAMES_BURST = 20,
	POD_NAMES_ALL_PER_S = 20,
	POD_NAMES_ALL_BURST = 80,
	POD_ASKS_IN_USE_MS = 20 * 1000, /* a pod that was used so lately is not given back */
};

struct pod_asks_config { /* copied */
	struct loop *loop;
	/* Asks the hub; id gets that of the message. False: there is none that answers. */
	bool (*send)(void *arg, const char *json, char id[37]);
	const struct snapshot *(*snapshot)(void *arg);
	void *arg;
};

struct pod_asks *pod_asks_new(const struct pod_asks_config *config);
void pod_asks_free(struct pod_asks **p); /* answers what is under way */
void pod_asks_ask(struct pod_asks *p, struct pod_ask *ask);
/* The hub's answer; len 0: it has refused. */
void pod_asks_answer(struct pod_asks *p, const char *id, const char *json, size_t len);
void pod_asks_look(struct pod_asks *p);
/* Answers what is under way, and from now on everything with POD_UNKNOWN. */
void pod_asks_end(struct pod_asks *p);
void pod_asks_metrics(const struct pod_asks *p, struct metrics *m);
/* JSON object. */
void pod_asks_state(const struct pod_asks *p, struct buf *out);
/* Hands the ask back to its loop. */
void pod_ask_finish(struct pod_ask *ask, enum pod_answer answer);

#endif
