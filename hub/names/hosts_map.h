/*
 * The hosts ConfigMap: one key of one ConfigMap of the Kubernetes API, kept at the lines that the
 * nodes call for (hub/names/hosts_text.h), for those who mount it into CoreDNS as Yurt and
 * SuperEdge have it. Other keys, and everything else of the object, stay as they are.
 *
 *   hub/kube/follow.h reads it ──► the text that should be there ──the same──► nothing
 *                                                           └─another──► POST when there is none, else PATCH of our key
 *                                                                        with the version that is known
 *   409: somebody else was first; read again, after a wait with jitter, and compared anew
 *
 * At most one write in HOSTS_PAUSE_MS; when somebody undoes what we wrote again and again, more and
 * more seldom, up to HOSTS_PAUSE_MOST_MS. Replicas write the same bytes, so the second one finds
 * nothing to do. On the hub's loop.
 *
 *	m = hosts_map_start(&config, &err);
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
	/* Adds the lines; false: they are not known yet, hosts_map_refresh follows. */
	bool (*lines)(void *arg, struct hosts_lines *to);
	void *arg;
};

int hosts_map_start(struct hosts_map **m, const struct hosts_map_config *config, struct err *err);
void hosts_map_stop(struct hosts_map **m);
void hosts_map_refresh(struct hosts_map *m);
/* {"configMap","key","exists","inStep","names","leftOut","kept","writes","conflicts","failures","problem"} */
void hosts_map_state(const struct hosts_map *m, struct buf *out);
void hosts_map_metrics(const struct hosts_map *m, struct metrics *to);

#endif
