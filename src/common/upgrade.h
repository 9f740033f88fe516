/*
 * `edgewayctl upgrade`: POST /upgrade on the admin socket has the daemon start its own program anew
 * (src/common/spawner.h), which then asks for its sockets (src/common/takeover.h). This answers
 * whoever asked, and remembers whom it started. Loop 0.
 *
 *	upgrade_asked(&u, fd, busy);	// admin_take_fn's
 */
#ifndef EDGEWAY_SRC_COMMON_UPGRADE_H
#define EDGEWAY_SRC_COMMON_UPGRADE_H

#include "src/common/spawner.h"

struct upgrade {
	struct loop *loop;
	struct spawner *starter; /* borrowed; NULL: nothing can be started */
	const char *who; /* "agent", "hub" */
	const char *program; /* argv[0] */
	int waiting; /* who wants to hear whether one was started; -1: nobody */
	pid_t child; /* that was started last; 0: none */
};

void upgrade_init(struct upgrade *u, struct loop *loop, struct spawner *starter, const char *who,
	const char *program);
void upgrade_fini(struct upgrade *u);
/* busy: the daemon stops, or hands over already. */
void upgrade_asked(struct upgrade *u, int fd, bool busy);
/* The process at the other end of a Unix socket; 0: not known. */
pid_t upgrade_who_asks(int fd);
/* The one that was started is to be the main process, if it is this one; somebody else's is not
 * ours to be. */
bool upgrade_is_child(const struct upgrade *u, pid_t pid);
void upgrade_tell_manager(const struct upgrade *u, pid_t pid);

#endif
