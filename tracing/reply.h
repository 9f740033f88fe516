/*
 * The answer to one request, read as it comes: bounded, whatever the server says. Leaves; any
 * thread.
 *
 *	reply_init(&r);
 *	to = buf_reserve(&r.in, n);		// NULL: too long
 *	buf_commit(&r.in, got);
 *	switch (reply_take(&r)) ...		// or, at the end of the connection, reply_end
 *	reply_fini(&r);
 */
#ifndef EDGEWAY_TRACING_REPLY_H
#define EDGEWAY_TRACING_REPLY_H

#include "base/http/http1.h"

enum {
	REPLY_MAX = 64 * 1024, /* bytes of the head, and of the body */
	REPLY_ALL_MAX = 4 * REPLY_MAX, /* with interim heads and what frames the body */
	REPLY_RETRY_AFTER_MAX_S = 300,
};

enum reply_got { REPLY_MORE, REPLY_DONE, REPLY_BAD };

struct reply {
	struct buf in; /* not looked at yet */
	struct buf body;
	size_t used; /* bytes of `in` that were read */
	uint16_t status; /* 0: the final head has not come */
	bool keep_alive; /* once it is done: the connection is good for another request */
	unsigned retry_after_s; /* 0: not said, or at once */
	const char *why; /* of REPLY_BAD */
	struct http1_body rest;
	struct http1_head head; /* what it borrows is gone */
};

void reply_init(struct reply *r);
void reply_fini(struct reply *r);
enum reply_got reply_take(struct reply *r);
/* The server has closed: is that the end of the body? */
bool reply_end(const struct reply *r);

#endif
