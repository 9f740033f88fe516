/*
 * The body of one request to a collector: spans as OTLP JSON, compressed with gzip as they are
 * added, so that no single turn of the loop makes a whole body. Calls only base/ and its siblings;
 * any thread.
 *
 *	body_begin(b, 512);
 *	body_add(b, span);			// and so on, in as many turns as you like
 *	post_send(post, body_end(b), 0);	// good until the next body_begin
 */
#ifndef EDGEWAY_TRACING_BODY_H
#define EDGEWAY_TRACING_BODY_H

#include "base/core/buf.h"
#include "tracing/otlp.h"

struct body;

/* The texts are copied. */
struct body *body_new(const struct otlp_resource *who);
void body_free(struct body **b);
/* Drops what was begun before. about: the expected number of spans. */
void body_begin(struct body *b, size_t about);
void body_add(struct body *b, const struct trace_span *s);
const struct buf *body_end(struct body *b);

#endif
