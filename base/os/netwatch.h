/*
 * Tells when something about this machine's network has changed: a link, an address, a route
 * (rtnetlink(7)). Not what: the owner tries again whatever has failed. Changes that come together
 * are told once, NETWATCH_MS after the first.
 *
 *	netwatch_start(&watch, loop, on_change, me, &err);
 */
#ifndef EDGEWAY_BASE_OS_NETWATCH_H
#define EDGEWAY_BASE_OS_NETWATCH_H

#include "base/core/loop.h"

enum { NETWATCH_MS = 50 };

struct netwatch;

/* The socket alone, for an owner who looks for himself; groups: RTMGRP_*. Non-blocking. */
int netwatch_open(unsigned groups, int *fd, struct err *err);
/* Reads what waits in it. Has the kernel told of anything, or of more than there was room for? */
bool netwatch_drain(int fd);

int netwatch_start(
	struct netwatch **w, struct loop *loop, loop_fn *changed, void *arg, struct err *err);
void netwatch_stop(struct netwatch **w);

#endif
