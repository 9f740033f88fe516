/*
 * One resource of the API server, kept the same in a model/cluster/cluster (source ""): listed in
 * pages, then watched from the list's resource version on.
 *
 *   LIST ──all pages──► WATCH ──clean end, connection lost──► WATCH (from the last version seen)
 *    ▲                    │ ended and had said nothing, or silent too long
 *    │                    ▼
 *    └─ version went ── PROBE (a list of one, for its version alone) ──► WATCH
 *    └─ 410 as status or as event, an event that is not understood or too large
 *
 * A list removes what it does not hold only at its end, so that there is no moment without
 * services; an object that is not understood goes on as it was understood last. A watch's end
 * proves nothing, so every watch goes on from the last version seen. Whatever fails is tried again,
 * after kube_wait_ms.
 *
 * Spine, on the hub's loop. `changed` comes when the cluster may have changed, also at the end of a
 * list.
 */
#ifndef EDGEWAY_HUB_KUBE_REFLECTOR_H
#define EDGEWAY_HUB_KUBE_REFLECTOR_H

#include "base/core/metric.h"
#include "hub/kube/kube_api.h"
#include "model/cluster/cluster.h"

enum {
	REFLECTOR_PAGE = 500,
	REFLECTOR_WATCH_S = 240, /* and up to as much again by half */
	REFLECTOR_SILENCE_MS = 130000, /* bookmarks come each 60 s, if there is something to say */
	REFLECTOR_LIST_SILENCE_MS = 30000,
	REFLECTOR_ABSENT_MS = 60000,
};

struct reflector_config {
	struct loop *loop;
	struct kube_api *api;
	struct cluster *cluster;
	const char *resource; /* "endpointslices" */
	const char *group; /* "discovery.k8s.io"; "" for the core */
	const char *const *
		versions; /* of the group, the first that the server has; ended by NULL. NULL: v1 */
	const char *rights; /* file with the rights for it, for who has none; NULL: not said */
	const char *select; /* selectors as in a query, encoded; "" */
	enum kube_kind kind;
	uint64_t silence_ms; /* of a watch; 0: REFLECTOR_SILENCE_MS */
	uint64_t backoff_ms; /* first wait after a failure; 0: KUBE_WAIT_FIRST_MS */
	loop_fn *changed; /* also when the server refuses to say anything */
	void *arg;
};

struct reflector_stats {
	uint64_t events, lists, watches, errors, refused, removed;
	uint64_t heard_ms; /* loop's time of the last byte of an answer, 0: never */
};

struct reflector;

/* Begins at once. Texts of the config are borrowed until reflector_stop. */
struct reflector *reflector_start(const struct reflector_config *config);
/* What it said stays in the cluster. */
void reflector_stop(struct reflector **r);

/* Has it been listed to the end once? */
bool reflector_listed(const struct reflector *r);
/* The server does not know the resource (it is asked again from time to time). */
bool reflector_absent(const struct reflector *r);
/* The server has answered once that we do not get it, for whatever reason. */
bool reflector_refused(const struct reflector *r);
/* What is wrong at the moment, with the remedy; "". */
const char *reflector_problem(const struct reflector *r);
const struct reflector_stats *reflector_stats(const struct reflector *r);
/* {"doing","version","listed","events","lists","heard_s","problem"} */
void reflector_state(const struct reflector *r, struct buf *out);

#endif
