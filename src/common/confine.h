/*
 * A daemon's system call filter (base/os/sandbox.h): the key `seccomp`, and its reports in log,
 * metrics and state. Loop 0.
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

/* If the kernel does not allow it, that is logged, and the daemon continues without a filter. */
void confine_enter(struct confine **c, enum sandbox_mode mode);
void confine_follow(struct confine *c, struct loop *loop);
/* Before loop_free. An active filter stays active. */
void confine_free(struct confine **c);
void confine_metrics(const struct confine *c, struct metrics *m);
/* JSON object: {"mode","calls","refused","call","reason","error"}. */
void confine_state(const struct confine *c, struct buf *out);

#endif
