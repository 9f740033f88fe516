/*
 * Ends ejections on evidence: endpoints that refused connections or were silent are dialled
 * repeatedly while their services are in use, and return with the first connection that succeeds.
 * Each worker probes its own, PROBES_MAX at a time. Endpoints that closed the connection instead of
 * responding are dialled once: if that fails too, they are treated like the others; else they stay
 * out for their back-off, as a connection proves nothing about responses.
 */
#ifndef EDGEWAY_LB_PROXY_PROBE_H
#define EDGEWAY_LB_PROXY_PROBE_H

#include "lb/proxy/worker.h"

/* At every tick of the worker. Returns when to call it again; UINT64_MAX: nothing is ejected. */
uint64_t probe_tick(struct worker *w);
/* Before the worker ends. */
void probe_stop(struct worker *w);

#endif
