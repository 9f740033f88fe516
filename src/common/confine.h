/*
 * The filter of system calls (base/os/sandbox.h) in a daemon's life: the key `seccomp`, what the
 * log, the metrics and the state say of it. Loop 0.
 *
 *	confine_enter(&c, mode);	// one thread yet
 *	confine_follow(c, loop);
 */
#ifndef EDGEWAY_SRC_COMMON_CONFINE_H
#define EDGEWAY_SRC_COMMON_CONFINE_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "base/os/sandbox.h"

struct confine;

/* Where the kernel does not allow it, the log says so, and the daemon goes on without. */
void confine_enter(struct confine **c, enum sandbox_mode mode);
void confine_follow(struct confine *c, struct loop *loop);
/* Before loop_free. What holds goes on to hold. */
void confine_free(struct confine **c);
void confine_metrics(const struct confine *c, struct metrics *m);
/* JSON object: {"mode","calls","refused","call","reason","error"}. */
void confine_state(const struct confine *c, struct buf *out);

#endif
