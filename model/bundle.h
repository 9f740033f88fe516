/*
 * Several messages in one compressed frame (doc/protocol.md, "Bundles"): an envelope `insert`
 * `bundle/zlib` whose content is one JSON string, base64 of zlib of whole envelopes, each ended by
 * a line feed. Many small messages of one kind compress far better together than alone; a large
 * message is a bundle of one. Only for a peer that announced support for bundles.
 *
 *	buf_add(&lines, frame, len), buf_add(&lines, "\n", 1);
 *	bundle_build(&out, "edgeway-hub", id, &lines);
 *
 *	if (bundle_is(&e) && bundle_open(&lines, &e, &err) == 0)
 *		while ((text = bundle_next(&lines, &len)) != NULL)
 *			...envelope_parse(&inner, text, len, &err)...
 */
#ifndef EDGEWAY_MODEL_BUNDLE_H
#define EDGEWAY_MODEL_BUNDLE_H

#include "model/envelope.h"

#define BUNDLE_KIND "zlib" /* announced by a peer that supports bundles */
#define BUNDLE_RESOURCE "bundle/" BUNDLE_KIND

enum {
	BUNDLE_LEAST_BYTES = 1024, /* smaller messages are sent uncompressed */
	BUNDLE_MOST_BYTES =
		256 * 1024, /* most bytes of lines in one bundle, unless a single line is longer */
};

/* Appends the frame. lines: not empty, each ended by a line feed. id: of the bundle, and of
 * messages in it that have none; NULL: a new one. */
void bundle_build(struct buf *out, const char *source, const char *id, const struct buf *lines);
/* A message out of the bundle that has no id gets the bundle's. */
void bundle_inherit(struct envelope *inner, const struct envelope *bundle);
bool bundle_is(const struct envelope *e);
/* Inits `lines`, the caller's to fini, also on error. -EMSGSIZE: more than ENVELOPE_MAX_BYTES or
 * BUNDLE_LINES_MAX; -EBADMSG. */
int bundle_open(struct buf *lines, const struct envelope *e, struct err *err);
/* The next line, NUL-terminated instead of its line feed; valid until the next call. NULL: no more
 * lines. */
const char *bundle_next(struct buf *lines, size_t *len);

#endif
