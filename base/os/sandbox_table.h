/*
 * The system calls of agent and hub: one table for the filter that they install themselves
 * (sandbox.h), for the profile of container runtimes and for the units of systemd
 * (deploy/seccomp/profile.c prints those two).
 *
 * Names are libseccomp's, of x86_64, arm64 and armhf together: a call that a kernel or library does
 * not know is passed over. How the list was found is told in doc/security.md.
 */
#ifndef EDGEWAY_BASE_OS_SANDBOX_TABLE_H
#define EDGEWAY_BASE_OS_SANDBOX_TABLE_H

#include <stdint.h>

/* Words with a space between them. */
extern const char sandbox_running[]; /* what agent and hub need while they run */
/* Asked for by libraries to learn whether it is there: -ENOSYS, which they take well, and not worth
 * a word. */
extern const char sandbox_probed[];
/* What is needed until then: by ld.so, by the agent that starts its own program anew, and by a
 * unit's ExecReload=. */
extern const char sandbox_starting[];
/* What runc and crun need after their filter is in force, and what one runs in a pod: edgewayctl, a
 * shell. */
extern const char sandbox_container[];

/* An argument decides. Several rows of one call: one that fits is enough. */
struct sandbox_bound {
	const char *call;
	unsigned arg; /* from 0 */
	uint64_t mask, value; /* (argument & mask) == value */
};

extern const struct sandbox_bound sandbox_bounds[];
extern const unsigned sandbox_n_bounds;

#endif
