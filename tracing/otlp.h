/*
 * Spans as OTLP has them: ExportTraceServiceRequest in protobuf's JSON mapping (opentelemetry-proto
 * 1, "OTLP/HTTP, JSON Protobuf Encoding": ids in hex, 64-bit numbers as strings, enums as numbers),
 * with the names of the semantic conventions for HTTP clients; and what a collector answers.
 * Leaves; any thread.
 *
 *	otlp_begin(&o, &(struct otlp_resource){"edgeway-agent", "edge-1", true});
 *	otlp_add(&o, span);		// o.out has what was written since it was emptied
 *	otlp_end(&o);
 */
#ifndef EDGEWAY_TRACING_OTLP_H
#define EDGEWAY_TRACING_OTLP_H

#include "base/core/buf.h"
#include "model/span.h"

/* Whose spans they are. */
struct otlp_resource {
	const char *program, *name; /* name: of this one among all */
	bool is_node; /* of Kubernetes, and `name` is its */
};

struct otlp {
	struct buf out; /* the caller's, who may empty it between two calls */
	const char *scope; /* of the spans that are being written; NULL: none */
};

void otlp_begin(struct otlp *o, const struct otlp_resource *who);
void otlp_add(struct otlp *o, const struct trace_span *s);
void otlp_end(struct otlp *o);
/* How many spans an answer 200 says were refused (partialSuccess), and why, fit for a line of the
 * log. A body that cannot be read says none: they were taken. */
uint64_t otlp_rejected(const char *body, size_t len, char *why, size_t size);

#endif
