/*
 * Tells the service manager how this daemon is (systemd's Type=notify and WatchdogSec=): READY=1
 * once, STATUS= when it has changed, WATCHDOG=1 at half of the time that the manager allows,
 * STOPPING=1 at the end. All from loop 0, so that one that hangs is restarted.
 *
 * What is ordered after a daemon waits for READY=1; a node whose hub is away must boot all the
 * same. So READY=1 comes after ANNOUNCE_PATIENCE_MS at the latest, and STATUS= says what is
 * lacking.
 *
 *	announce_start(&a->announce, &(struct announce_config){.loop = a->loop, .part = "agent", .ready = ready, .arg = a});
 *	announce_stopping(a->announce);
 *	announce_stop(&a->announce);
 *
 * Where no manager listens all of it does nothing, and the pointer is NULL.
 */
#ifndef EDGEWAY_SRC_COMMON_ANNOUNCE_H
#define EDGEWAY_SRC_COMMON_ANNOUNCE_H

#include "base/core/buf.h"
#include "base/core/loop.h"

enum { ANNOUNCE_PATIENCE_MS = 10000 };

struct announce;

/* May what waits for us go on? `status`: a line for people, why not or how it is; empty when there
 * is nothing to say. */
typedef bool announce_fn(void *arg, struct buf *status);

struct announce_config {
	struct loop *loop;
	const char *part; /* who speaks in the log: "agent", "hub" */
	announce_fn *ready;
	void *arg;
	uint64_t patience_ms; /* 0: ANNOUNCE_PATIENCE_MS */
};

void announce_start(struct announce **announce, const struct announce_config *config);
/* All of it once more: the manager heeds only the main process (NotifyAccess=main), which we are
 * from now on. */
void announce_again(struct announce *announce);
/* The watchdog is fed on: draining may take its time. */
void announce_stopping(struct announce *announce);
void announce_stop(struct announce **announce);

#endif
