/*
 * One file of the manifest folder: what it last said in good shape, and its way into the cluster.
 *
 * What counts when something is wrong:
 *  - a file that cannot be read, does not parse or holds nothing: all it said before goes on to count;
 *  - an object that is wrong, in a file that parses: the others of the file load, and this one goes on to
 *    count as it was said before by this file, if it was;
 *  - an object said twice in a file: the first counts; by two files: the one whose name sorts first.
 * "Before" reaches back beyond the start of the hub where copies are kept
 * (hub/manifests/manifest_keep.h). Each is logged once for each change of the file, with file and
 * line. On the hub's loop.
 */
#ifndef EDGEWAY_HUB_MANIFESTS_MANIFEST_FILE_H
#define EDGEWAY_HUB_MANIFESTS_MANIFEST_FILE_H

#include <sys/stat.h>

#include "hub/manifests/claims.h"
#include "hub/manifests/manifest_keep.h"
#include "model/cluster/cluster.h"

enum { MANIFEST_FILE_MAX = 16 * 1024 * 1024 };

struct manifest_file {
	char *name; /* in the folder; also the source's name in the cluster */
	struct claim *claims; /* what it says now */
	size_t n_objects;
	uint32_t round; /* of the content last adopted: claims of another round are older */
	uint64_t hash; /* of the content last read, so that the same bytes are not told twice */
	int outcome; /* and what came of it */
	char *problem; /* why the last content did not load as it stands, NULL: it did */
	uint64_t gone_ms; /* loop's time when it was found missing, 0: it is there */
	bool scanned, dirty; /* free for the folder's walk */
	/* What was read, to see changes that no event told. */
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
	bool settled; /* it had not changed for a while when it was read */
	const struct manifest_keep
		*keep; /* copies from before the start; NULL: none; the owner's */
	struct manifest_copies copies; /* to be written by the owner */
};

struct manifest_file *manifest_file_new(const char *name);
/* Takes back all it said. */
void manifest_file_free(struct manifest_file **f, struct cluster *cluster, struct claims *claims);
/* Does the folder look at files of this name? */
bool manifest_name_ok(const char *name);
/* Is what stat says what was read? */
bool manifest_file_same(const struct manifest_file *f, const struct stat *st);
/* 0: loaded, perhaps with complaints; -ENOENT: it is not there; else what it said before counts. */
int manifest_file_load(struct manifest_file *f, const char *folder, struct cluster *cluster,
	struct claims *claims);

#endif
