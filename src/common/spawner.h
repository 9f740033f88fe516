/*
 * A process that starts the agent's program anew, for `edgewayctl upgrade`: what the agent gives up
 * (sandbox.h) would hold for whatever it executes, a newer version of itself among that. So it is
 * forked before, holds no file, knows no other program, and hears one word. It ends with the agent.
 * Nobody waits for it: one that is stopped holds up nothing, and starts nothing later on. Loop 0.
 *
 *	spawner_new(&s, argv, &err);	// one thread yet; privileges are reduced already
 *	spawner_run(s, loop, on_started, arg);
 */
#ifndef EDGEWAY_SRC_COMMON_SPAWNER_H
#define EDGEWAY_SRC_COMMON_SPAWNER_H

#include <sys/types.h>

#include "base/core/err.h"
#include "base/core/loop.h"

struct spawner;

/* argv must outlive it. */
int spawner_new(struct spawner **s, char **argv, struct err *err);
enum { SPAWNER_MS = 5000 };
/* 0 or -errno: -EBUSY while the last one runs, -ETIMEDOUT after SPAWNER_MS, -ECHILD when the
 * process has ended; pid is that of the one that runs now, 0: none. It is the starter's child. */
typedef void spawner_fn(void *arg, int rc, pid_t pid);
/* Starts argv[0] with EDGEWAY_TAKEOVER=true and no signal blocked. `done` comes once, not from
 * within this call, and not after spawner_free. -errno: it does not come; -EBUSY: one is under
 * way. */
int spawner_run(struct spawner *s, struct loop *loop, spawner_fn *done, void *arg);
/* Of the process itself. */
pid_t spawner_pid(const struct spawner *s);
void spawner_free(struct spawner **s);

#endif
