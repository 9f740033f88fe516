/*
 * Ends ejections by evidence: endpoints that refused connections or were silent are dialled again
 * and again while somebody uses their services, and are back with the first connection that is
 * made. Each worker does it for its own, PROBES_MAX at a time. Those that hung up instead of
 * answering are dialled once: if that fails too, they are like the others; else they are left to
 * their back-off, as a connection says nothing about answers.
 */
#ifndef EDGEWAY_LB_PROBE_H
#define EDGEWAY_LB_PROBE_H

#include "lb/private.h"

/* At every tick of the worker. */
void probe_tick(struct worker *w);
/* Before the worker ends. */
void probe_stop(struct worker *w);

#endif
