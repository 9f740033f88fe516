/*
 * Copies of the last good content of a manifest folder's files, under dataDir, so that a file that
 * is broken when the hub starts continues to count as before (hub/manifests/manifest_file.h). Two
 * copies per file: its last content that was good as a whole, and a later content with some invalid
 * object. File I/O blocks, on the hub's loop; a change is copied some time after it took effect, so
 * nobody waits for the disk. A copy that cannot be read is ignored.
 *
 *	keep = manifest_keep_open(data_dir, folder);
 *	manifest_copies_take(&copies, KEEP_WHOLE, &text, len);		// to be written
 *	rc = manifest_keep_write(keep, "web.yaml", &copies);
 */
#ifndef EDGEWAY_HUB_MANIFESTS_MANIFEST_KEEP_H
#define EDGEWAY_HUB_MANIFESTS_MANIFEST_KEEP_H

#include "base/core/util.h"

enum keep_kind { KEEP_WHOLE, KEEP_PART, KEEP_KINDS };

struct manifest_keep;

/* The copies of one file that are to be written. */
struct manifest_copies {
	struct {
		char *text; /* NULL: to be removed */
		size_t len;
		bool waits;
	} copy[KEEP_KINDS];
	/* mono_ms: the write failed, try again then; 0: it is the first attempt */
	uint64_t again_ms;
};

/* For this folder only; creates nothing before the first write. */
struct manifest_keep *manifest_keep_open(const char *data_dir, const char *folder);
void manifest_keep_close(struct manifest_keep **k);

/* Takes over the text. A whole content removes the part. */
void manifest_copies_take(
	struct manifest_copies *copies, enum keep_kind kind, char **text, size_t len);
/* The copy of the whole is up to date: removes the part. */
void manifest_copies_whole(struct manifest_copies *copies);
void manifest_copies_fini(struct manifest_copies *copies);
bool manifest_copies_wait(const struct manifest_copies *copies);

/* 0: nothing waits any more; or -errno: everything that waited still waits. */
int manifest_keep_write(
	const struct manifest_keep *k, const char *file, struct manifest_copies *copies);
/* On the heap; NULL if there is none. */
char *manifest_keep_read(
	const struct manifest_keep *k, const char *file, enum keep_kind kind, size_t *len);
void manifest_keep_drop(const struct manifest_keep *k, const char *file);
/* Removes the copies of files for which `known` returns false. */
void manifest_keep_sweep(
	const struct manifest_keep *k, bool (*known)(void *arg, const char *file), void *arg);

#endif
