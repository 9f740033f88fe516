/*
 * The agent's start and stop: makes the loops, opens the parts in the order of their dependencies,
 * passes each part what the others learn, and takes everything down in the reverse order.
 *
 *	start:   lock ► loops ► meta (snapshot from SQLite) ► dns, lb ► interface ► admin ► hub
 *	address: lb listens ► nftables ► dns listens ► resolv.conf     (again at every change)
 *	stop:    resolv.conf ► lb and tunnel drain ► nftables ► dns ► hub ► loops
 */
#ifndef EDGEWAY_SRC_AGENT_AGENT_H
#define EDGEWAY_SRC_AGENT_AGENT_H

#include "src/agent/agent_options.h"

struct agent;

/* argc and argv are kept for SIGHUP. After an error *agent is what had begun, and the process is to
 * end. */
int agent_start(struct agent **agent, struct agent_options *options, int argc, char **argv,
	struct err *err);
/* Returns the exit status after SIGTERM or SIGINT, when everything is undone. */
int agent_run(struct agent **agent);

#endif
