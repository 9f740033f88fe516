/*
 * What others have said (names, lines of logs, answers of strangers) on its way to a terminal:
 * whatever a terminal could obey is written out instead. Control characters become \u001b (C0 but
 * for line feed and tab, DEL, C1), bytes that are no UTF-8 \xff; everything else stands as it is.
 * What JSON has between quotes means the same afterwards. Pure.
 *
 *	used = clean_add(&out, bytes, n, false);	// what is left is the beginning of a character
 */
#ifndef EDGEWAY_SRC_CTL_CTL_CLEAN_H
#define EDGEWAY_SRC_CTL_CTL_CLEAN_H

#include "base/core/buf.h"

/* A character begins with this byte that is not text, but one of ours (screen_ink); the next byte
 * says which. No UTF-8 has it. */
#define CLEAN_MARK '\xff'

/* What stands for the mark and the byte behind it; "": nothing of ours. */
typedef const char *clean_mark_fn(char kind);

/* How many bytes were taken: all, or all but up to three that may become a character with what
 * follows; `last`: nothing does. mark NULL: there are none. */
size_t clean_add(struct buf *out, const char *bytes, size_t n, bool last, clean_mark_fn *mark);
/* The same of a text, with line feeds and tabs as spaces: one line; on the heap. */
char *clean_line(const char *text);

#endif
