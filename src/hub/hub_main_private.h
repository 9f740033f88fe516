/*
 * What the files of the hub's main program share: hub_main.c (start, reload, admin socket, end) and
 * hub_succeed.c (from one hub to the next). Nothing outside of these includes it. All of it on the
 * one loop.
 *
 *	rc = hub_main_take_lock(m, err);	// of dataDir, or the hub's that runs
 */
#ifndef EDGEWAY_SRC_HUB_HUB_MAIN_PRIVATE_H
#define EDGEWAY_SRC_HUB_HUB_MAIN_PRIVATE_H

#include "hub/hub.h"
#include "src/common/confine.h"
#include "src/common/handover.h"
#include "src/common/service_state.h"
#include "src/common/takeover.h"
#include "src/hub/hub_options.h"
#include "src/hub/hub_tracing.h"

struct hub_main {
	struct loop *loop;
	struct hub *hub;
	struct admin *admin, *metrics; /* metrics: NULL without metrics.listen */
	struct service_state *announce; /* NULL: no service manager listens */
	struct sigwatch *term, *intr, *hup;
	struct confine *confine;
	struct hub_tracing tracing;
	struct timer *drain; /* the longest wait for streams at the end */
	struct hub_options *options;
	/* holds the trees that options has, once SIGHUP has changed them */
	struct hub_options reread;
	int argc;
	char **argv;
	uint64_t started_ms;
	uint64_t reloaded, not_reloaded; /* by SIGHUP */
	int lock; /* of dataDir, held until the process ends */
	int status; /* of the process */
	struct spawner *starter; /* of the next one; NULL: there is no process for that */
	struct handover *handover; /* to the next one */
	struct takeover *takeover; /* until the one before us has let go; NULL: there was none */
	struct timer *ready; /* while there is one: looks whether we serve */
};

/* --- hub_main.c ----------------------------------------------------------------------------- */
int hub_main_start_admin(struct hub_main *m, struct err *err);
/* SIGTERM: drains, and ends then, unless handover.h has it otherwise. */
void hub_main_stop(void *m);
/* Within drainTimeout; hub_main_end follows, unless it is to wait (handover.h). */
void hub_main_drain(struct hub_main *m);
void hub_main_end(void *m);

/* --- hub_succeed.c -------------------------------------------------------------------------- */
/* m->lock; m->takeover, if another hub runs and is to hand over. */
int hub_main_take_lock(struct hub_main *m, struct err *err);
/* Once it is started: follows the hub before, and is ready to hand over itself. */
void hub_main_follow(struct hub_main *m);
/* admin_take_fn */
void hub_main_takeover(void *m, int fd, const char *query);
void hub_main_upgrade(void *m, int fd, const char *query);

#endif
