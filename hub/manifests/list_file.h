/*
 * The file of one of the hub's lists (tokens, revocations, joins): written whole, by its owner,
 * from what is in memory. What must not be lost is written before it counts (list_file_write). What
 * must count at once, as a revocation, counts in memory and is written as soon as that is possible
 * (list_file_keep): while it is not, list_file_problem says so, and the owner tries again. Blocking
 * file I/O, on the hub's loop.
 *
 *	list_file_init(&l->file, path);
 *	rc = list_file_write(&l->file, &text, err);
 *	list_file_keep(&l->file, &text);
 */
#ifndef EDGEWAY_HUB_MANIFESTS_LIST_FILE_H
#define EDGEWAY_HUB_MANIFESTS_LIST_FILE_H

#include "base/core/buf.h"
#include "base/core/err.h"

struct list_file {
	char *path;
	char problem[320]; /* why what is in memory is not in the file, with the remedy; "" it is */
};

void list_file_init(struct list_file *f, const char *path);
void list_file_fini(struct list_file *f);
/* All or, with an error, nothing: the caller takes back what it has changed in memory. */
int list_file_write(struct list_file *f, const struct buf *text, struct err *err);
/* What is in memory counts, whether or not it can be written; to be called again while there is a
 * problem. */
void list_file_keep(struct list_file *f, const struct buf *text);

#endif
