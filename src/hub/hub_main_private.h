/*
 * What the files of the hub's main program share: hub_main.c (start, reload, admin socket, end) and
 * hub_succeed.c (from one hub to the next). Only these include it. Everything runs on the single
 * loop.
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
#include "src/common/workers.h"
#include "src/hub/hub_options.h"
#include "src/hub/hub_tracing.h"

struct hub_main {
	struct loop *loop;
	struct workers *workers; /* NULL: none */
	struct hub *hub;
	struct admin *admin, *metrics; /* metrics: NULL without metrics.listen */
	struct service_state *announce; /* NULL: there is no service manager */
	struct sigwatch *term, *intr, *hup;
	struct confine *confine;
	struct hub_tracing tracing;
	struct timer *drain; /* limits the wait for streams at the end */
	struct hub_options *options;
	/* owns the trees that `options` uses after a SIGHUP has changed them */
	struct hub_options reread;
	int argc;
	char **argv;
	uint64_t started_ms;
	uint64_t reloaded, not_reloaded; /* by SIGHUP */
	int lock; /* of dataDir, held until the process hands over, or ends */
	int status; /* of the process */
	struct spawner *starter; /* starts the successor; NULL: there is no process for that */
	struct handover *handover; /* to our successor */
	char behind[96]; /* why not now */
	struct takeover *takeover; /* until our predecessor has let go; NULL: there was none */
	struct timer *ready; /* while it exists: checks whether we serve */
};

/* --- hub_main.c ----------------------------------------------------------------------------- */
int hub_main_start_admin(struct hub_main *m, struct err *err);
/* SIGTERM: drains and then ends, unless handover.h decides otherwise. */
void hub_main_stop(void *m);
/* Drains within drainTimeout; hub_main_end follows, unless the process must wait (handover.h). */
void hub_main_drain(struct hub_main *m);
void hub_main_end(void *m);

/* --- hub_succeed.c -------------------------------------------------------------------------- */
/* Sets m->lock; and m->takeover if a running hub is to hand over. */
int hub_main_take_lock(struct hub_main *m, struct err *err);
/* Call once the hub is started: follows its predecessor, and becomes ready to hand over itself. */
void hub_main_follow(struct hub_main *m);
/* admin_take_fn */
void hub_main_takeover(void *m, int fd, const char *query);
void hub_main_upgrade(void *m, int fd, const char *query);

#endif
