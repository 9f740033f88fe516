/*
 * One span as OTLP's JSON has it, with the names of OpenTelemetry's semantic conventions:
 * tracing/otlp.c's other half, and included by these three files alone. Pure; any thread.
 */
#ifndef EDGEWAY_TRACING_OTLP_SPAN_H
#define EDGEWAY_TRACING_OTLP_SPAN_H

#include "base/core/buf.h"
#include "model/span.h"

/* The list of attributes that is being written. */
struct otlp_list {
	struct buf *out;
	const char *comma; /* "" before the first */
};

void otlp_text(struct otlp_list *l, const char *key, const char *value);
void otlp_number(struct otlp_list *l, const char *key, uint64_t value);
/* Attributes that several kinds of spans have. */
void otlp_method(struct otlp_list *l, const struct trace_span *s);
void otlp_status(struct otlp_list *l, const struct trace_span *s);
void otlp_sizes(struct otlp_list *l, const struct trace_span *s); /* of the bodies of HTTP */
void otlp_bytes(struct otlp_list *l, const struct trace_span *s); /* of anything else */

void otlp_span(struct buf *out, const struct trace_span *s);
/* The name of its scope. */
const char *otlp_scope(const struct trace_span *s);

/* --- otlp_carried.c: the attributes of what the tunnel carries ------------------------------ */
void otlp_served(struct otlp_list *l, const struct trace_span *s);
void otlp_asked(struct otlp_list *l, const struct trace_span *s);
void otlp_led(struct otlp_list *l, const struct trace_span *s);

#endif
