/*
 * Sends the hub's spans to a collector, if tracing.endpoint is set: owns the exporter and the
 * source with which the ingress makes spans. On the hub's loop.
 *
 *	rc = hub_tracing_open(&t, loop, options, &err);		// then t.spans goes to the hub
 *	hub_tracing_use(&t, options);				// SIGHUP
 *	hub_tracing_end(&t, stopped, me);			// what is left is sent first
 */
#ifndef EDGEWAY_SRC_HUB_HUB_TRACING_H
#define EDGEWAY_SRC_HUB_HUB_TRACING_H

#include "src/hub/hub_options.h"

struct hub_tracing {
	struct tracing *exporter; /* NULL: none, and the source is off */
	struct span_source spans;
};

int hub_tracing_open(
	struct hub_tracing *t, struct loop *loop, const struct hub_options *o, struct err *err);
/* Applies the current tracing.sample and tracing.limit; reads resolv.conf again. */
void hub_tracing_use(struct hub_tracing *t, const struct hub_options *o);
/* Takes no more spans; `stopped` is called later, or at once if there is nothing to send. */
void hub_tracing_end(struct hub_tracing *t, loop_fn *stopped, void *arg);

#endif
