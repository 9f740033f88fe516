/*
 * Spans as OTLP has them: ExportTraceServiceRequest in protobuf's JSON mapping (opentelemetry-proto 1, "OTLP/HTTP, JSON
 * Protobuf Encoding": ids in hex, 64-bit numbers as strings, enums as numbers), with the names of the semantic conventions for
 * HTTP clients; and what a collector answers. Leaves; any thread.
 *
 *	n = otlp_write(&out, node, first, 512);	// of the list's spans
 */
#ifndef EDGEWAY_TRACING_OTLP_H
#define EDGEWAY_TRACING_OTLP_H

#include "base/buf.h"
#include "model/span.h"

/* At most `most` of the list; how many they were. */
size_t otlp_write(struct buf *out, const char *node, const struct trace_span *first, size_t most);
/* How many spans an answer 200 says were refused (partialSuccess), and why, fit for a line of the log. A body that cannot be
 * read says none: they were taken. */
uint64_t otlp_rejected(const char *body, size_t len, char *why, size_t size);

#endif
