/*
 * The agent that runs hands over to a new one (takeover.h has the talk between them): by POST /takeover on the admin socket a new
 * agent asks for it; by POST /upgrade (`edgewayctl upgrade`) this one starts its own program again, which then asks, and tells the
 * service manager that it is the main process now. Loop 0.
 *
 * Afterwards this one finishes what it has, within drainTimeout, and leaves the host as it is. It ends then if it was
 * upgraded; else it waits to be stopped by whoever started both, who would otherwise start it again.
 */
#ifndef EDGEWAY_SRC_HANDOVER_H
#define EDGEWAY_SRC_HANDOVER_H

#include "base/admin.h"

struct agent;
struct handover;

/* admin_take_fn; arg is the agent. */
void handover_asked(void *agent, int fd, const char *query);
/* The same: starts the program again, and answers once that is known. */
void handover_upgrade(void *agent, int fd, const char *query);
/* SIGTERM: true when a handover is under way, which takes care of it. */
bool handover_terminates(struct agent *a);
/* Everything but DNS has ended: true when that shall go on for a while; agent_end follows. */
bool handover_lingers(struct agent *a);
/* Everything has ended: true when we wait to be stopped. */
bool handover_waits(struct agent *a);
void handover_free(struct agent *a);

#endif
