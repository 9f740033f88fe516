/*
 * Cleans texts from elsewhere (names, log lines, answers of other programs) on their way to a
 * terminal: anything that a terminal would interpret is escaped. Control characters become \u001b
 * (C0 except line feed and tab, DEL, C1), bytes that are not UTF-8 become \xff; the rest stays as
 * it is. Quoted JSON strings keep their meaning. Pure.
 *
 *	used = clean_add(&out, bytes, n, false, mark);	// the rest begins a character
 */
#ifndef EDGEWAY_SRC_CTL_CTL_CLEAN_H
#define EDGEWAY_SRC_CTL_CTL_CLEAN_H

#include "base/core/buf.h"

/* Marks our own output in the text (screen_ink); the next byte says which. This byte never occurs
 * in UTF-8. */
#define CLEAN_MARK '\xff'

/* The text for the mark and the byte after it; "": not ours. */
typedef const char *clean_mark_fn(char kind);

/* Returns how many bytes were taken: all, or all but up to three that may become a character with
 * the bytes that follow; `last`: nothing follows. mark NULL: there are no marks. */
size_t clean_add(struct buf *out, const char *bytes, size_t n, bool last, clean_mark_fn *mark);
/* The same for a text, with line feeds and tabs as spaces: one line; on the heap. */
char *clean_line(const char *text);

#endif
