/*
 * Copies of what the files of a manifest folder last said in good shape, under dataDir, so that a
 * file that is broken when the hub starts goes on to count as it did before
 * (hub/manifests/manifest_file.h). Of each file two: its last content that was good as a whole, and
 * what came after it with some wrong object. Blocking file I/O, on the hub's loop; a change is
 * copied some time after it was told, so nobody waits for the disk. A copy that cannot be read
 * counts as none.
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

/* What of one file is to be written. */
struct manifest_copies {
	struct {
		char *text; /* NULL: to be removed */
		size_t len;
		bool waits;
	} copy[KEEP_KINDS];
	/* mono_ms: could not be written, to be tried then; 0: it is the first time */
	uint64_t again_ms;
};

/* Of this folder alone; nothing is made before the first write. */
struct manifest_keep *manifest_keep_open(const char *data_dir, const char *folder);
void manifest_keep_close(struct manifest_keep **k);

/* Takes the text over. With a whole content there is no part any more. */
void manifest_copies_take(
	struct manifest_copies *copies, enum keep_kind kind, char **text, size_t len);
/* The copy of the whole is as it should be: no part any more. */
void manifest_copies_whole(struct manifest_copies *copies);
void manifest_copies_fini(struct manifest_copies *copies);
bool manifest_copies_wait(const struct manifest_copies *copies);

/* 0: nothing waits any more; or -errno: all that waits still does. */
int manifest_keep_write(
	const struct manifest_keep *k, const char *file, struct manifest_copies *copies);
/* On the heap; NULL when there is none. */
char *manifest_keep_read(
	const struct manifest_keep *k, const char *file, enum keep_kind kind, size_t *len);
void manifest_keep_drop(const struct manifest_keep *k, const char *file);
/* Drops the copies of files that `known` does not know. */
void manifest_keep_sweep(
	const struct manifest_keep *k, bool (*known)(void *arg, const char *file), void *arg);

#endif
