/*
 * Keeps one resource of the API server in step with a model/cluster/cluster (source ""): lists it
 * in pages, then watches from the list's resource version on.
 *
 *   LIST ──all pages──► WATCH ──clean end, connection lost──► WATCH (from the last version seen)
 *    ▲                    │ ended and had said nothing, or silent too long
 *    │                    ▼
 *    └─ version went ── PROBE (a list of one, for its version alone) ──► WATCH
 *    └─ 410 as status or as event, an event that is not understood or too large
 *
 * A list removes the missing objects only at its end, so that there is no moment without services;
 * an object that cannot be parsed keeps its last good version. The end of a watch does not mean
 * that anything changed, so every watch continues from the last version seen. Every failure is
 * retried after kube_wait_ms.
 *
 * On the hub's loop. `changed` comes when the cluster may have changed, also at the end of a list.
 */
#ifndef EDGEWAY_HUB_KUBE_REFLECTOR_H
#define EDGEWAY_HUB_KUBE_REFLECTOR_H

#include "base/core/metric.h"
#include "hub/kube/kube_api.h"
#include "model/cluster/cluster.h"

enum {
	REFLECTOR_PAGE = 500,
	REFLECTOR_WATCH_S = 240, /* plus up to half as much, at random */
	/* bookmarks come every 60 s, if there is something to report */
	REFLECTOR_SILENCE_MS = 130000,
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
	/* file with the rights for it, named in the error when they are missing; NULL: none */
	const char *rights;
	/* A server that does not know the resource, or does not let us read it, is no problem. What
	 * was read of it before does not count any more. A BackendTLSPolicy that may not be read
	 * counts on, and is a problem. */
	bool optional;
	const char *select; /* selectors as in a query, encoded; "" */
	enum kube_kind kind;
	uint64_t silence_ms; /* of a watch; 0: REFLECTOR_SILENCE_MS */
	uint64_t backoff_ms; /* first back-off after a failure; 0: KUBE_WAIT_FIRST_MS */
	loop_fn *changed; /* also when the server refuses every request */
	void *arg;
};

struct reflector_stats {
	uint64_t events, lists, errors, refused, removed;
	uint64_t heard_ms; /* loop's time of the last byte of a response, 0: never */
};

struct reflector;

/* Starts at once. Texts of the config are borrowed until reflector_stop. */
struct reflector *reflector_start(const struct reflector_config *config);
/* Its objects stay in the cluster. */
void reflector_stop(struct reflector **r);

/* Returns true once it has been listed completely. */
bool reflector_listed(const struct reflector *r);
/* The server does not know the resource (the reflector asks again from time to time). */
bool reflector_absent(const struct reflector *r);
/* The server has refused the resource at least once, for whatever reason. */
bool reflector_refused(const struct reflector *r);
/* The current problem, with the remedy; "": none. */
const char *reflector_problem(const struct reflector *r);
const struct reflector_stats *reflector_stats(const struct reflector *r);
/* {"doing","version","listed","events","lists","heard_s","problem"} */
void reflector_state(const struct reflector *r, struct buf *out);

#endif
