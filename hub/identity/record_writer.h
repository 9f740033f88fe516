/*
 * Writes node records on a thread of its own: a write waits for the disk, 10 ms and more, and
 * thousands of nodes may come at once. What is waiting is written together. Until a record is in
 * its file its name counts as taken (record_writer_has), and who reads it gets it from here
 * (record_writer_text); who changes the file waits for it first (record_writer_wait). Called on the
 * hub's loop.
 *
 * A record may have a line for the journal, which is on the disk before the file. Who needs to
 * know that all is on the disk gets an answer, a post to its loop; record_writer_free posts all.
 * What the disk refuses, and nobody waits for, is tried again by record_writer_retry, unless
 * somebody has put or waited for its name since.
 *
 *	rc = record_writer_new(&w, journal, err);
 *	record_writer_put(w, &(struct record_put){.name = "edge-1", .path = path, .text = text});
 *	if ((text = record_writer_text(w, "edge-1")) == NULL)
 *		file_read(path, most, &text, NULL);
 *	record_writer_free(&w);		// once all is written
 */
#ifndef EDGEWAY_HUB_IDENTITY_RECORD_WRITER_H
#define EDGEWAY_HUB_IDENTITY_RECORD_WRITER_H

#include "base/core/err.h"
#include "base/core/loop.h"
#include "base/core/util.h"

struct record_writer;

/* Owned by who waits, until fn(answer) comes. */
struct record_answer {
	struct loop *loop;
	loop_fn *fn;
	int rc; /* 0: line and file are on the disk; -errno: the file is not written */
};

struct record_put {
	const char *name, *path; /* copied */
	char *text; /* taken */
	char *line; /* for the journal, behind the end of the last one; NULL: none; taken */
	struct record_answer *answer; /* NULL: nobody waits */
};

/* journal: path of a file to which lines are appended. */
int record_writer_new(struct record_writer **out, const char *journal, struct err *err);
void record_writer_free(struct record_writer **w);
/* Replaces the text of an earlier record of this name that waits, whose line and answer stay; waits
 * for that one if this has a line or an answer itself. */
void record_writer_put(struct record_writer *w, const struct record_put *put);
bool record_writer_has(struct record_writer *w, const char *name);
/* A copy of what waits; NULL: nothing does, and the file has it, or there is none. */
char *record_writer_text(struct record_writer *w, const char *name);
/* Returns once the name's record is in its file, or cannot be written, and then it will not be
 * retried; NULL: those of all names. */
void record_writer_wait(struct record_writer *w, const char *name);
/* How many records wait, if they are more than are written at once, or those that are being written
 * take a second; else 0. */
size_t record_writer_behind(struct record_writer *w);
/* For each that waits; fn must not call this module. */
typedef void record_writer_fn(void *arg, const char *name, const char *text);
void record_writer_each(struct record_writer *w, record_writer_fn *fn, void *arg);
/* Why a record is not in its file; "": all are, or the disk takes files again. */
void record_writer_problem(struct record_writer *w, char *to, size_t size);
/* Tries again what the disk has refused; it does not wait for that. */
void record_writer_retry(struct record_writer *w);
/* Grows when a name is no longer waiting without being in its file, and when it waits again. */
uint64_t record_writer_changes(struct record_writer *w);

#endif
