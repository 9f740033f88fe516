/*
 * Writes node records that need not be on the disk before something happens, on a thread of its own
 * that starts with the first: a write waits for the disk, 10 ms and more, and thousands of nodes
 * may come at once. What is waiting is written together. Until a record is in its file its name
 * counts as taken (record_writer_has), and who reads it gets it from here (record_writer_text); who
 * changes the file waits for it first (record_writer_wait). Called on the hub's loop.
 *
 *	record_writer_put(w, "edge-1", path, text);
 *	if ((text = record_writer_text(w, "edge-1")) == NULL)
 *		file_read(path, most, &text, NULL);
 *	record_writer_free(&w);		// once all is written
 */
#ifndef EDGEWAY_HUB_IDENTITY_RECORD_WRITER_H
#define EDGEWAY_HUB_IDENTITY_RECORD_WRITER_H

#include "base/core/util.h"

struct record_writer;

struct record_writer *record_writer_new(void);
void record_writer_free(struct record_writer **w);
/* The text is taken. Waits for an earlier record of this name. */
void record_writer_put(struct record_writer *w, const char *name, const char *path, char *text);
bool record_writer_has(struct record_writer *w, const char *name);
/* A copy of what waits; NULL: nothing does, and the file has it, or there is none. */
char *record_writer_text(struct record_writer *w, const char *name);
/* Returns once the name's record is in its file, or cannot be written. */
void record_writer_wait(struct record_writer *w, const char *name);
/* For each that waits; fn must not call this module. */
typedef void record_writer_fn(void *arg, const char *name, const char *text);
void record_writer_each(struct record_writer *w, record_writer_fn *fn, void *arg);
/* Why the last record is not in its file; "": it is. A record that cannot be written is given up:
 * its node is noted again when it next connects. */
void record_writer_problem(struct record_writer *w, char *to, size_t size);
/* How many records were given up. */
uint64_t record_writer_given_up(struct record_writer *w);

#endif
