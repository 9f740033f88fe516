/*
 * seccomp(2): what a daemon may ask of the kernel from now on, by the table of sandbox_table.h.
 * Called once, while the process has one thread; those that are started later are bound as well,
 * and so is whatever they would execute.
 *
 *	sandbox_enter(&s, SANDBOX_ENFORCE, &err);	// -errno: nothing is refused, err has the reason
 *	watch_start(loop, sandbox_fd(s), WATCH_READ, ...);
 *	while (sandbox_next(s, &refusal)) ...		// each call once, however often it is refused
 *
 * A call that is not in the table gets ENOSYS, as from a kernel that does not have it: a library
 * that begins to use a newer one does what it did before, and the daemon goes on. Who gives that
 * answer, and counts, is a thread that is made first (SECCOMP_RET_USER_NOTIF); it has no
 * capabilities and a filter of a few calls. Were it gone, the kernel would answer the same by
 * itself, as it does where it is older than 5.0 or a filter around us has such a listener already.
 * Calls of another architecture (i386 and x32 on x86_64) end the process.
 */
#ifndef EDGEWAY_BASE_OS_SANDBOX_H
#define EDGEWAY_BASE_OS_SANDBOX_H

#include "base/core/err.h"

struct sandbox;

/* In the order of the words of the key `seccomp`. */
enum sandbox_mode {
	SANDBOX_ENFORCE,
	SANDBOX_LOG, /* what would be refused is told, and done */
	SANDBOX_OFF,
};

struct sandbox_status {
	unsigned calls; /* that are allowed, those with conditions among them */
	bool counted; /* false: the kernel's log alone tells what was refused */
	uint64_t refused; /* with SANDBOX_LOG: would have been */
};

struct sandbox_refusal {
	char call[32]; /* "keyctl", or its number */
	int thread; /* its id, in the eyes of this process */
	uint64_t args[3];
};

/* 0, or -errno: -ENOTSUP when this program was built without libseccomp, or with sanitizers, which
 * need more calls. Never freed: it ends with the process. mode: not SANDBOX_OFF. */
int sandbox_enter(struct sandbox **s, enum sandbox_mode mode, struct err *err);
/* Readable when sandbox_next has something; -1: nothing is counted. */
int sandbox_fd(const struct sandbox *s);
bool sandbox_next(struct sandbox *s, struct sandbox_refusal *refusal);
/* Any thread. */
struct sandbox_status sandbox_status(const struct sandbox *s);

#endif
