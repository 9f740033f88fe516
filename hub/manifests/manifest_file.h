/*
 * One file of the manifest folder: its last good content, and how it is loaded into the cluster.
 *
 * Which content counts when something is wrong:
 * - a file that cannot be read, does not parse or is empty: its previous objects continue to count;
 * - an invalid object, in a file that parses: the other objects of the file load, and the file's
 *   previous version of this one continues to count, if there was one;
 * - an object defined twice in one file: the first counts; in two files: that of the file whose
 *   name sorts first.
 * "Previous" includes the time before the start of the hub where copies are kept
 * (hub/manifests/manifest_keep.h). Each error is logged once per change of the file, with file and
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
	struct claim *claims; /* the objects it defines now */
	size_t n_objects;
	uint32_t round; /* of the content last adopted: claims of an earlier round are older */
	uint64_t hash; /* of the content last read, so that the same bytes are not loaded twice */
	int outcome; /* the result of loading it */
	char *problem; /* why the last content did not load completely; NULL: it did */
	char *twice; /* the first object that it defines twice; NULL: none */
	uint64_t gone_ms; /* loop's time when it was found missing, 0: it is there */
	bool scanned, dirty; /* for the folder's scan */
	/* What was read, to detect changes without an event. */
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec mtime;
	bool settled; /* it had been unchanged for a while when it was read */
	const struct manifest_keep
		*keep; /* copies from before the start; NULL: none; belongs to the owner */
	struct manifest_copies copies; /* to be written by the owner */
};

struct manifest_file *manifest_file_new(const char *name);
/* Removes all its objects. */
void manifest_file_free(struct manifest_file **f, struct cluster *cluster, struct claims *claims);
/* Returns true if the folder loads files of this name. */
bool manifest_name_ok(const char *name);
/* Returns true if stat shows the file that was read. */
bool manifest_file_same(const struct manifest_file *f, const struct stat *st);
/* Returns true if it was written to a moment ago, so that more may come. */
bool manifest_file_fresh(const struct stat *st);
/* Returns true if the content last read could be parsed. */
bool manifest_file_readable(const struct manifest_file *f);
/* Which of its objects do not count since they are defined twice; on the heap, NULL: none. */
char *manifest_file_warning(const struct manifest_file *f, const struct claims *claims);
/* 0: loaded, perhaps with errors; -ENOENT: it does not exist; else its previous objects count. */
int manifest_file_load(struct manifest_file *f, const char *folder, struct cluster *cluster,
	struct claims *claims);

#endif
