/*
 * Passes descriptors from one process to another over a Unix socket (SCM_RIGHTS, unix(7)), with a
 * line that says what they are. Both ends then hold the same open file: a listening socket keeps
 * its queue when the sender closes its descriptor.
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

/* Sends all in one message, or nothing: 0 or -errno. n <= FDPASS_MOST; the caller keeps its own
 * descriptors. */
int fdpass_send(int sock, const char *text, size_t len, const int *fds, size_t n);
/* Returns the bytes of one message, 0 at the end, or -errno; the descriptors are close-on-exec and
 * belong to the caller. -EBADMSG: more came than fits; those are closed. */
ssize_t fdpass_receive(int sock, char *text, size_t size, struct fdpass *fds);
/* Closes the descriptors that are not taken (taken ones are -1). */
void fdpass_close(struct fdpass *fds);

#endif
