/*
 * Reports this daemon's state to the service manager (systemd's Type=notify and WatchdogSec=):
 * READY=1 once, STATUS= when it has changed, WATCHDOG=1 at half of the interval that the manager
 * allows, STOPPING=1 at the end. All from loop 0, so that a daemon whose loop 0 hangs is restarted.
 *
 * Units ordered after the daemon wait for READY=1, but a node must boot even if its hub is
 * unreachable. So READY=1 is sent after SERVICE_STATE_PATIENCE_MS at the latest, and STATUS= says
 * what is missing.
 *
 *	config = (struct service_state_config){
 *		.loop = a->loop, .part = "agent", .ready = ready, .arg = a};
 *	service_state_start(&a->announce, &config);
 *	service_state_stopping(a->announce);
 *	service_state_stop(&a->announce);
 *
 * Without a service manager all functions do nothing, and the pointer is NULL.
 */
#ifndef EDGEWAY_SRC_COMMON_SERVICE_STATE_H
#define EDGEWAY_SRC_COMMON_SERVICE_STATE_H

#include "base/core/buf.h"
#include "base/core/loop.h"

enum { SERVICE_STATE_PATIENCE_MS = 10000 };

struct service_state;

/* Returns whether units that wait for us may start. `status`: one line for people: why not, or the
 * state; empty if there is nothing to say. */
typedef bool service_state_fn(void *arg, struct buf *status);

struct service_state_config {
	struct loop *loop;
	const char *part; /* this daemon's name in the log: "agent", "hub" */
	service_state_fn *ready;
	void *arg;
	uint64_t patience_ms; /* 0: SERVICE_STATE_PATIENCE_MS */
};

void service_state_start(
	struct service_state **announce, const struct service_state_config *config);
/* Sends everything again: the manager accepts messages only from the main process
 * (NotifyAccess=main), which we are from now on. */
void service_state_again(struct service_state *announce);
/* The watchdog is still fed: draining may take long. */
void service_state_stopping(struct service_state *announce);
void service_state_stop(struct service_state **announce);

#endif
