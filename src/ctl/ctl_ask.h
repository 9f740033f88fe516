/*
 * edgewayctl's requests to a running daemon: HTTP over its admin socket. The daemons close after
 * every response; an answer shorter than its Content-Length, or without its last chunk, is none.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_ASK_H
#define EDGEWAY_SRC_CTL_CTL_ASK_H

#include "base/core/buf.h"
#include "base/core/err.h"

/* Leaves the body in `answer`, an initialised buffer, which is emptied first. 0, or -errno: the
 * daemon could not be reached, did not answer as a whole, or refused. */
int ctl_ask(const char *socket_path, const char *method, const char *target, struct buf *answer,
	struct err *err);

#endif
