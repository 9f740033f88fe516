/*
 * `edgewayctl upgrade`: POST /upgrade on the admin socket makes the daemon start its own program
 * again (src/common/spawner.h), which then asks for the sockets (src/common/takeover.h). This part
 * responds to the caller and remembers the started process. Loop 0.
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
	int waiting; /* connection of the caller that waits for the result; -1: none */
	pid_t child; /* the process started last; 0: none */
};

void upgrade_init(struct upgrade *u, struct loop *loop, struct spawner *starter, const char *who,
	const char *program);
void upgrade_fini(struct upgrade *u);
/* busy: the daemon is stopping, or is already handing over. */
void upgrade_asked(struct upgrade *u, int fd, bool busy);
/* The process at the other end of a Unix socket; 0: unknown. */
pid_t upgrade_who_asks(int fd);
/* Only the process that was started last may become the main process: upgrade_is_child says whether
 * `pid` is that process, upgrade_tell_manager announces it. */
bool upgrade_is_child(const struct upgrade *u, pid_t pid);
void upgrade_tell_manager(const struct upgrade *u, pid_t pid);

#endif
