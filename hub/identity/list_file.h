/*
 * The file of a list that its owner, hub/identity/registry or ledger, always writes as a whole from
 * memory. What must not be lost is written before it takes effect (list_file_write). What must take
 * effect at once, such as a revocation, takes effect in memory and is written as soon as possible
 * (list_file_keep): until then `problem` says why it is not, and the owner tries again. File I/O
 * blocks, on the hub's loop.
 *
 *	list_file_init(&l->file, path);
 *	rc = list_file_write(&l->file, &text, err);
 *	list_file_keep(&l->file, &text);
 */
#ifndef EDGEWAY_HUB_IDENTITY_LIST_FILE_H
#define EDGEWAY_HUB_IDENTITY_LIST_FILE_H

#include "base/core/buf.h"
#include "base/core/err.h"

struct list_file {
	char *path;
	/* why the state in memory is not in the file, with the remedy; "": it is */
	char problem[320];
};

void list_file_init(struct list_file *f, const char *path);
void list_file_fini(struct list_file *f);
/* Writes everything or, with an error, nothing: then the caller reverts its change in memory. */
int list_file_write(struct list_file *f, const struct buf *text, struct err *err);
/* The state in memory is in force, whether or not it can be written; call again while there is a
 * problem. */
void list_file_keep(struct list_file *f, const struct buf *text);

#endif
