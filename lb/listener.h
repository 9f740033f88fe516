/*
 * A worker's listening socket: accepts in batches and finds the service port that each connection
 * was meant for. Connections made to the listener itself, or to addresses that are no service's,
 * are reset: relaying them would come back here for ever.
 */
#ifndef EDGEWAY_LB_LISTENER_H
#define EDGEWAY_LB_LISTENER_H

#include "lb/private.h"

/* Takes fd; an earlier one is closed. -1: none. */
void listener_use(struct worker *w, int fd);
/* Takes what the kernel has accepted already, which would be reset, and closes. */
void listener_finish(struct worker *w);
/* On each tick: tries again after it ran out of descriptors. */
void listener_tick(struct worker *w);

/* How many connections of clients there may be, by the descriptors of this process. */
uint64_t listener_connections(void);

#endif
