/*
 * A process that starts the agent's program anew, for `edgewayctl upgrade`: what the agent gives up (sandbox.h) would
 * hold for whatever it executes, a newer version of itself among that. So it is forked before, holds no file, knows no
 * other program, and hears one word. It ends with the agent.
 *
 *	starter_new(&s, argv, &err);	// one thread yet; privileges are reduced already
 *	starter_run(s, &pid);
 */
#ifndef EDGEWAY_SRC_STARTER_H
#define EDGEWAY_SRC_STARTER_H

#include <sys/types.h>

#include "base/err.h"

struct starter;

/* argv must outlive it. */
int starter_new(struct starter **s, char **argv, struct err *err);
/* Starts argv[0] with EDGEWAY_TAKEOVER=true and no signal blocked: 0 or -errno, -EBUSY while the last one
 * runs; *pid is that of the one that runs now, 0: none. It is the starter's child. */
int starter_run(struct starter *s, pid_t *pid);
/* Does the one that was started last still run? */
bool starter_runs(struct starter *s);
void starter_free(struct starter **s);

#endif
