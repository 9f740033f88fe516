/*
 * Writes spans as OTLP: ExportTraceServiceRequest in protobuf's JSON mapping (opentelemetry-proto
 * 1, "OTLP/HTTP, JSON Protobuf Encoding": ids in hex, 64-bit numbers as strings, enums as numbers),
 * with the names of the semantic conventions for HTTP clients; and reads a collector's response.
 * Any thread.
 *
 *	otlp_begin(&o, &(struct otlp_resource){"edgeway-agent", "edge-1", true});
 *	otlp_add(&o, span);		// o.out has what was written since it was emptied
 *	otlp_end(&o);
 */
#ifndef EDGEWAY_TRACING_OTLP_H
#define EDGEWAY_TRACING_OTLP_H

#include "base/core/buf.h"
#include "model/span.h"

/* The origin of the spans. */
struct otlp_resource {
	const char *program, *name; /* name: identifies this instance among all */
	bool is_node; /* a node of Kubernetes, and `name` is the node's name */
};

struct otlp {
	struct buf out; /* owned by the caller, who may empty it between two calls */
	const char *scope; /* of the spans being written; NULL: none */
};

void otlp_begin(struct otlp *o, const struct otlp_resource *who);
void otlp_add(struct otlp *o, const struct trace_span *s);
void otlp_end(struct otlp *o);
/* How many spans a 200 response reports as refused (partialSuccess), and why, as one line for the
 * log. An unreadable body reports none: the spans were accepted. */
uint64_t otlp_rejected(const char *body, size_t len, char *why, size_t size);

#endif
