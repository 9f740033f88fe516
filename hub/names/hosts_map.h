/*
 * The hosts ConfigMap: keeps one key of one ConfigMap of the Kubernetes API at the lines for the
 * current nodes (hub/names/hosts_text.h), for users who mount it into CoreDNS as with Yurt and
 * SuperEdge. Other keys, and everything else in the object, stay as they are.
 *
 *   hub/kube/follow.h reads it ──► compared with the wanted text ──equal──► nothing
 *                 └─different──► POST when there is none, else PATCH of our key with the
 *                                known version
 *   409: somebody else was first; read again, after a wait with jitter, and compared again
 *
 * At most one write in HOSTS_PAUSE_MS; if somebody else reverts our writes again and again, the
 * interval grows up to HOSTS_PAUSE_MOST_MS. Replicas write the same bytes, so the second one finds
 * nothing to do. On the hub's loop.
 *
 *	hosts_map_start(&m, &config, &err);
 *	hosts_map_refresh(m);	// nodes have changed
 */
#ifndef EDGEWAY_HUB_NAMES_HOSTS_MAP_H
#define EDGEWAY_HUB_NAMES_HOSTS_MAP_H

#include "base/core/metric.h"
#include "hub/kube/kube_api.h"
#include "hub/names/hosts_text.h"

enum {
	HOSTS_PAUSE_MS = 2000,
	HOSTS_PAUSE_MOST_MS = 300 * 1000,
	HOSTS_BYTES_MAX = 1 << 20, /* of all values of a ConfigMap */
};

struct hosts_map;

struct hosts_map_config {
	struct loop *loop;
	struct kube_api *api;
	const char *name; /* namespace/name; copied, as is the key */
	const char *key;
	/* Adds the lines; false: they are not known yet, a call of hosts_map_refresh follows. */
	bool (*lines)(void *arg, struct hosts_lines *to);
	void *arg;
};

int hosts_map_start(struct hosts_map **m, const struct hosts_map_config *config, struct err *err);
void hosts_map_stop(struct hosts_map **m);
void hosts_map_refresh(struct hosts_map *m);
/* {"configMap","key","exists","inStep","names","leftOut","kept","writes","conflicts","failures",
 * "problem"} */
void hosts_map_state(const struct hosts_map *m, struct buf *out);
void hosts_map_metrics(const struct hosts_map *m, struct metrics *to);

#endif
