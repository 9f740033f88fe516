/*
 * Restricts the daemon's system calls with seccomp(2), by the table of sandbox_table.h. Called
 * once, while the process has one thread; later threads inherit the filter, and so does any program
 * they execute.
 *
 *	sandbox_enter(&s, SANDBOX_ENFORCE, &err);	// -errno: no filter; err: the reason
 *	watch_start(loop, sandbox_fd(s), WATCH_READ, ...);
 *	while (sandbox_next(s, &refusal)) ...		// each system call only once
 *
 * A call that is not in the table gets ENOSYS, as from a kernel that does not have it: a library
 * that starts to use a newer call falls back to the older one, and the daemon goes on. A supervisor
 * thread, created first, gives that answer and counts (SECCOMP_RET_USER_NOTIF); it has no
 * capabilities and a filter of a few calls. If it is gone, the kernel itself answers the same, as
 * it does where it is older than 5.0 or where an outer filter already has such a listener. Calls of
 * another architecture (i386 and x32 on x86_64) kill the process.
 */
#ifndef EDGEWAY_BASE_OS_SANDBOX_H
#define EDGEWAY_BASE_OS_SANDBOX_H

#include "base/core/err.h"

struct sandbox;

/* In the order of the words of the key `seccomp`. */
enum sandbox_mode {
	SANDBOX_ENFORCE,
	SANDBOX_LOG, /* what would be refused is reported, and allowed */
	SANDBOX_OFF,
};

struct sandbox_status {
	unsigned calls; /* allowed calls, including those with conditions */
	bool counted; /* false: only the kernel's log shows refusals */
	uint64_t refused; /* with SANDBOX_LOG: would have been */
};

struct sandbox_refusal {
	char call[32]; /* "keyctl", or its number */
	int thread; /* its id, in this process's pid namespace */
	uint64_t args[3];
};

/* 0, or -errno: -ENOTSUP when this program was built without libseccomp, or with sanitizers, which
 * need more calls. Never freed: it lives as long as the process. mode: not SANDBOX_OFF. */
int sandbox_enter(struct sandbox **s, enum sandbox_mode mode, struct err *err);
/* Readable when sandbox_next has something; -1: nothing is counted. */
int sandbox_fd(const struct sandbox *s);
bool sandbox_next(struct sandbox *s, struct sandbox_refusal *refusal);
/* Any thread. */
struct sandbox_status sandbox_status(const struct sandbox *s);

#endif
