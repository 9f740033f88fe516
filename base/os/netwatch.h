/*
 * Reports that this machine's network has changed: a link, an address, a route (rtnetlink(7)). It
 * does not say what: the owner retries whatever has failed. Changes close together are reported
 * once, NETWATCH_MS after the first. The address of docker0 is followed by iptables/host/iface.
 *
 *	netwatch_start(&watch, loop, on_change, me, &err);
 */
#ifndef EDGEWAY_BASE_OS_NETWATCH_H
#define EDGEWAY_BASE_OS_NETWATCH_H

#include "base/core/loop.h"

enum { NETWATCH_MS = 50 };

struct netwatch;

/* Opens only the socket, for an owner that reads it itself; groups: RTMGRP_*. Non-blocking. */
int netwatch_open(unsigned groups, int *fd, struct err *err);
/* Reads all waiting messages. True if there were any, or if the queue overflowed. */
bool netwatch_drain(int fd);

int netwatch_start(
	struct netwatch **w, struct loop *loop, loop_fn *changed, void *arg, struct err *err);
void netwatch_stop(struct netwatch **w);

#endif
