/*
 * A process that starts the agent's program again, for `edgewayctl upgrade`: restrictions that the
 * agent takes on (sandbox.h) would also hold for any program it executes, including its own newer
 * version. So this process is forked before that. It has no files open, executes no other program,
 * accepts one command only, and ends with the agent. What it starts has the privileges that it has
 * itself, also where the user is not root. Nothing blocks on it: a stopped process delays nobody,
 * and starts nothing later. Loop 0.
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
/* 0 or -errno: -EBUSY while the last start is in progress, -ETIMEDOUT after SPAWNER_MS, -ECHILD if
 * the process has ended. pid: the running program, a child of the spawner process; 0: none. */
typedef void spawner_fn(void *arg, int rc, pid_t pid);
/* Starts argv[0] with EDGEWAY_TAKEOVER=true and no signal blocked. `done` is called once, not from
 * within this call, and not after spawner_free. If this returns -errno, `done` is not called;
 * -EBUSY: a start is in progress. */
int spawner_run(struct spawner *s, struct loop *loop, spawner_fn *done, void *arg);
/* The pid of the spawner process itself. */
pid_t spawner_pid(const struct spawner *s);
void spawner_free(struct spawner **s);

#endif
