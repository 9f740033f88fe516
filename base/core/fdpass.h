/*
 * Descriptors that go from one process to another over a Unix socket (SCM_RIGHTS, unix(7)), with a
 * line that says what they are. Both ends hold the same open file then: a listening socket keeps
 * its queue when the one who gave it closes its own.
 *
 *	rc = fdpass_send(sock, "sockets 2\n", 10, fds, 2);
 *	n = fdpass_receive(sock, text, sizeof text, &fds);	// fds.at[0..fds.n)
 */
#ifndef EDGEWAY_BASE_CORE_FDPASS_H
#define EDGEWAY_BASE_CORE_FDPASS_H

#include "base/core/util.h"

enum { FDPASS_MOST = 250 }; /* the kernel takes 253 at a time */

struct fdpass {
	int at[FDPASS_MOST];
	size_t n;
};

/* All of it in one message, or nothing: 0 or -errno. n <= FDPASS_MOST; they stay the caller's
 * too. */
int fdpass_send(int sock, const char *text, size_t len, const int *fds, size_t n);
/* Bytes of one message, 0 at the end, or -errno; the descriptors are close-on-exec and the
 * caller's. -EBADMSG: more came than can be taken; those are closed. */
ssize_t fdpass_receive(int sock, char *text, size_t size, struct fdpass *fds);
/* Closes those that nobody has taken (taken ones are -1). */
void fdpass_close(struct fdpass *fds);

#endif
