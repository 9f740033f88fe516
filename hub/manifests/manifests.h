/*
 * The manifest source: a watched folder of Kubernetes objects (*.yaml, *.yml, *.json, several
 * objects in a file), loaded into a model/cluster. Files whose names begin with a dot, and editors'
 * backups, are ignored. See hub/manifests/manifest_file.h for what counts when something is wrong.
 *
 * Changes are loaded MANIFESTS_SETTLE_MS after the first event, together. A missing file counts
 * until it has been missing for MANIFESTS_GRACE_MS, so that an editor may save by rename. If the
 * folder does not exist, the source waits for it; if it disappears, its last content stays. If
 * several manifests with Services vanish at once and none is left, or their file system is gone,
 * they count until one can be read again (an empty List will do), also across a restart. Folders
 * whose symbolic links are replaced as a whole (a mounted ConfigMap) work. Everything is scanned
 * again every MANIFESTS_RESCAN_MS; a file that only the scan finds changed is loaded once nobody
 * has written to it for 2 s.
 *
 * Copies of good content are kept under data_dir, so that a restart changes nothing while a file is
 * broken.
 *
 * On the hub's loop. `changed` comes when the cluster may have changed, and once when the folder
 * has been read for the first time (also if it was empty).
 */
#ifndef EDGEWAY_HUB_MANIFESTS_MANIFESTS_H
#define EDGEWAY_HUB_MANIFESTS_MANIFESTS_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "model/cluster/cluster.h"

enum {
	MANIFESTS_SETTLE_MS = 10,
	MANIFESTS_GRACE_MS = 200,
	MANIFESTS_RETURN_MS = 2000, /* files of an emptied folder return one by one */
	MANIFESTS_WAIT_MS = 1000,
	MANIFESTS_RESCAN_MS = 30000,
	MANIFESTS_KEEP_MS = 1000, /* from a change to its copy on disk */
	MANIFESTS_KEEP_AGAIN_MS = 4000, /* retry of a failed copy */
};

struct manifests;

struct manifests_config {
	const char *folder;
	struct cluster *cluster;
	loop_fn *changed;
	void *arg;
	const char *data_dir; /* for copies that outlive the hub; NULL or "": none */
};

/* Reads the existing files before it returns (calls `changed`); a missing folder is not an
 * error. */
int manifests_start(struct manifests **m, struct loop *loop, const struct manifests_config *config,
	struct err *err);
/* The objects stay in the cluster: free that too. */
void manifests_stop(struct manifests **m);
/* Has the folder been read? */
bool manifests_ready(const struct manifests *m);
/* Number of files with a problem. */
size_t manifests_broken(const struct manifests *m);
/* Why a copy under data_dir could not be written; "": all are. Borrowed. */
const char *manifests_copies_problem(const struct manifests *m);
/* Calls fn for each file whose last content did not load completely. Texts are borrowed. */
void manifests_each_problem(const struct manifests *m,
	void (*fn)(void *arg, const char *file, const char *problem), void *arg);
/* {"folder":..,"problem","remedy","ready":..,"files":[{"file","objects","problem","warning"}]} */
void manifests_state(const struct manifests *m, struct buf *out);
void manifests_metrics(const struct manifests *m, struct metrics *to);

#endif
