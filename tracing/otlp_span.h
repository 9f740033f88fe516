/*
 * One span as OTLP JSON, with the names of OpenTelemetry's semantic conventions: shared by otlp.c,
 * otlp_span.c and otlp_carried.c, and included only by them. Pure; any thread.
 */
#ifndef EDGEWAY_TRACING_OTLP_SPAN_H
#define EDGEWAY_TRACING_OTLP_SPAN_H

#include "base/core/buf.h"
#include "model/span.h"

/* The list of attributes being written. */
struct otlp_list {
	struct buf *out;
	const char *comma; /* "" before the first */
};

void otlp_text(struct otlp_list *l, const char *key, const char *value);
void otlp_number(struct otlp_list *l, const char *key, uint64_t value);
/* Attributes that several kinds of spans have. */
void otlp_method(struct otlp_list *l, const struct trace_span *s);
void otlp_status(struct otlp_list *l, const struct trace_span *s);
void otlp_sizes(struct otlp_list *l, const struct trace_span *s); /* of HTTP bodies */
void otlp_bytes(struct otlp_list *l, const struct trace_span *s); /* of anything else */

void otlp_span(struct buf *out, const struct trace_span *s);
/* The name of the span's scope. */
const char *otlp_scope(const struct trace_span *s);

/* --- otlp_carried.c: attributes of tunnel streams ------------------------------------------- */
void otlp_served(struct otlp_list *l, const struct trace_span *s);
void otlp_asked(struct otlp_list *l, const struct trace_span *s);
void otlp_led(struct otlp_list *l, const struct trace_span *s);

#endif
