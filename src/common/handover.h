/*
 * A daemon that runs hands over to a new one of its kind on its machine, agent or hub (takeover.h
 * has the talk between them): by POST /takeover on the admin socket a new one asks for it; by POST
 * /upgrade (`edgewayctl upgrade`) this one starts its own program again, which then asks, and tells
 * the service manager that it is the main process now. The program says by its functions how it
 * freezes, goes on, gives and ends; the order of all that, SIGTERM included, is kept here. On the
 * daemon's main loop.
 *
 * Afterwards this one finishes what it has, within drainTimeout. It ends then if it was upgraded;
 * else it waits to be stopped by whoever started both, who would otherwise start it again.
 *
 *	handover_new(&h, &config);
 *	handover_asked(h, fd);			// admin_take_fn's
 *	if (handover_terminate(h))		// SIGTERM
 *		...				// stop: drain
 *	handover_drained(h);			// calls config.end, now or later
 */
#ifndef EDGEWAY_SRC_COMMON_HANDOVER_H
#define EDGEWAY_SRC_COMMON_HANDOVER_H

#include "base/core/buf.h"
#include "src/common/spawner.h"

struct handover;

struct handover_config {
	struct loop *loop;
	const char *who; /* "agent", "hub"; static, as takeover_ask has it */
	struct spawner *starter; /* NULL: none */
	const char *program; /* argv[0] */
	const char *refusal; /* why it never hands over; NULL: it does */
	/* A new one comes: what only one of the two may do ends, serving goes on. */
	void (*freeze)(void *arg);
	/* The head of takeover.h, and the descriptors behind it, FDPASS_MOST at most: how many, or
	 * -errno. They stay the program's. */
	int (*sockets)(void *arg, struct buf *head, int *fds);
	/* It has not come: undoes freeze. */
	int (*resume)(void *arg, struct err *err);
	/* It serves: the admin socket is closed, and what is in progress ends; handover_drained
	 * follows. */
	void (*give)(void *arg);
	/* The program is to stop, as by SIGTERM; status 1: it cannot go on. */
	void (*stop)(void *arg, int status);
	/* All is over, the process ends. Once. */
	void (*end)(void *arg);
	void *arg;
};

void handover_new(struct handover **h, const struct handover_config *config);
void handover_free(struct handover **h);
/* fd: as admin_take_fn gets it. */
void handover_asked(struct handover *h, int fd);
/* The same: starts the program again, and answers once that is known. */
void handover_upgrade(struct handover *h, int fd);
/* A new one reads what is on the disk, or has: nothing is to be changed there. */
bool handover_is_under_way(const struct handover *h);
/* SIGTERM: true once, when the program is to drain now; else that is under way, or waits for what
 * becomes of a new one. */
bool handover_terminate(struct handover *h);
/* Everything has drained, or drainTimeout is over. Again: nothing. */
void handover_drained(struct handover *h);

#endif
