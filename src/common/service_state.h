/*
 * Tells the service manager how this daemon is (systemd's Type=notify and WatchdogSec=): READY=1
 * once, STATUS= when it has changed, WATCHDOG=1 at half of the time that the manager allows,
 * STOPPING=1 at the end. All from loop 0, so that one that hangs is restarted.
 *
 * What is ordered after a daemon waits for READY=1; a node whose hub is away must boot all the
 * same. So READY=1 comes after SERVICE_STATE_PATIENCE_MS at the latest, and STATUS= says what is
 * lacking.
 *
 *	service_state_start(&a->announce, &(struct service_state_config){.loop = a->loop, .part = "agent", .ready = ready, .arg = a});
 *	service_state_stopping(a->announce);
 *	service_state_stop(&a->announce);
 *
 * Where no manager listens all of it does nothing, and the pointer is NULL.
 */
#ifndef EDGEWAY_SRC_COMMON_SERVICE_STATE_H
#define EDGEWAY_SRC_COMMON_SERVICE_STATE_H

#include "base/core/buf.h"
#include "base/core/loop.h"

enum { SERVICE_STATE_PATIENCE_MS = 10000 };

struct service_state;

/* May what waits for us go on? `status`: a line for people, why not or how it is; empty when there
 * is nothing to say. */
typedef bool service_state_fn(void *arg, struct buf *status);

struct service_state_config {
	struct loop *loop;
	const char *part; /* who speaks in the log: "agent", "hub" */
	service_state_fn *ready;
	void *arg;
	uint64_t patience_ms; /* 0: SERVICE_STATE_PATIENCE_MS */
};

void service_state_start(
	struct service_state **announce, const struct service_state_config *config);
/* All of it once more: the manager heeds only the main process (NotifyAccess=main), which we are
 * from now on. */
void service_state_again(struct service_state *announce);
/* The watchdog is fed on: draining may take its time. */
void service_state_stopping(struct service_state *announce);
void service_state_stop(struct service_state **announce);

#endif
