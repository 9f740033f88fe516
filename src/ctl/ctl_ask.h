/*
 * edgewayctl's questions to a running daemon: HTTP over its admin socket; the daemons close after
 * every answer, so the end of the stream is the end of the body.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_ASK_H
#define EDGEWAY_SRC_CTL_CTL_ASK_H

#include "base/core/buf.h"
#include "base/core/err.h"

/* Leaves the body in `answer`, an initialised buffer, which is emptied first. 0, or -errno: it
 * could not be asked, or says no. */
int ctl_ask(const char *socket_path, const char *method, const char *target, struct buf *answer,
	struct err *err);

#endif
