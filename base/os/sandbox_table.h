/*
 * The system calls that agent and hub may make: one table for the filter that they install
 * themselves (sandbox.h), for the container runtimes' profile and for systemd units
 * (deploy/seccomp/profile.c prints the latter two).
 *
 * Names are libseccomp's, of x86_64, arm64 and armhf together: a name that a kernel or library does
 * not know is skipped. doc/security.md says how the list was found.
 */
#ifndef EDGEWAY_BASE_OS_SANDBOX_TABLE_H
#define EDGEWAY_BASE_OS_SANDBOX_TABLE_H

#include <stdint.h>

/* Names separated by spaces. */
extern const char sandbox_running[]; /* what agent and hub need while they run */
/* Probed by libraries to learn whether the kernel has them: they handle -ENOSYS well, and it is not
 * logged. */
extern const char sandbox_probed[];
/* What is needed before that: by ld.so, by the agent when it re-executes itself or makes its rings
 * (send_ring.h), and by a unit's ExecReload=. */
extern const char sandbox_starting[];
/* What runc and crun need once their filter is active, and what people run in a pod: edgewayctl, a
 * shell. */
extern const char sandbox_container[];

/* Allows a call by its argument. Of several rows for one call, one match is enough. */
struct sandbox_bound {
	const char *call;
	unsigned arg; /* from 0 */
	uint64_t mask, value; /* (argument & mask) == value */
};

extern const struct sandbox_bound sandbox_bounds[];
extern const unsigned sandbox_n_bounds;

#endif
