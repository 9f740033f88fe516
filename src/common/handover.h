/*
 * Hand-over from a running daemon, agent or hub, to a new one of its kind on the same machine
 * (takeover.h has the protocol). A new daemon asks for it with POST /takeover on the admin socket.
 * With POST /upgrade (`edgewayctl upgrade`) this daemon starts its own program again, which then
 * asks, and tells the service manager that the new process is now the main process. The program
 * supplies functions to freeze, resume, give and end; their order, including SIGTERM, is decided
 * here. On the daemon's main loop.
 *
 * Afterwards this daemon finishes its work within drainTimeout. After an upgrade it then exits;
 * otherwise it waits until it is stopped by the process that started both, which would restart it
 * if it exited.
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
	const char *who; /* "agent", "hub"; static, as in takeover_ask */
	struct spawner *starter; /* NULL: none */
	const char *program; /* argv[0] */
	/* Why it does not hand over, ever or now; NULL: it does. NULL itself: it always does. */
	const char *(*refusal)(void *arg);
	/* A new daemon comes: ends what only one of the two may do; serving continues. */
	void (*freeze)(void *arg);
	/* Supplies the head of takeover.h and the descriptors after it, at most FDPASS_MOST:
	 * returns how many, or -errno. They stay the program's. */
	int (*sockets)(void *arg, struct buf *head, int *fds);
	/* The new daemon did not come: undoes freeze. */
	int (*resume)(void *arg, struct err *err);
	/* The new daemon serves: close the admin socket and finish what is in progress;
	 * handover_drained follows. */
	void (*give)(void *arg);
	/* Stops the program, as after SIGTERM; status 1: it cannot continue. */
	void (*stop)(void *arg, int status);
	/* Everything is over, the process ends. Called once. */
	void (*end)(void *arg);
	void *arg;
};

void handover_new(struct handover **h, const struct handover_config *config);
void handover_free(struct handover **h);
/* fd: as passed to admin_take_fn. */
void handover_asked(struct handover *h, int fd);
/* The same: starts the program again, and responds once the result is known. */
void handover_upgrade(struct handover *h, int fd);
/* A new daemon is reading the disk, or has read it: nothing may be changed there. */
bool handover_is_under_way(const struct handover *h);
/* SIGTERM: returns true once, when the program must drain now; else it is draining already, or must
 * wait for the result of a hand-over. */
bool handover_terminate(struct handover *h);
/* Everything has drained, or drainTimeout has passed. Further calls do nothing. */
void handover_drained(struct handover *h);

#endif
