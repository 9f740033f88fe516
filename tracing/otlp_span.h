/*
 * One span as OTLP's JSON has it, with the names of OpenTelemetry's semantic conventions: tracing/otlp.c's other half, and
 * included by nobody else. Pure; any thread.
 */
#ifndef EDGEWAY_TRACING_OTLP_SPAN_H
#define EDGEWAY_TRACING_OTLP_SPAN_H

#include "base/buf.h"
#include "model/span.h"

/* The list of attributes that is being written. */
struct otlp_list {
	struct buf *out;
	const char *comma; /* "" before the first */
};

void otlp_text(struct otlp_list *l, const char *key, const char *value);
void otlp_span(struct buf *out, const struct trace_span *s);

#endif
