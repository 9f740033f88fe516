/*
 * The response to one request, parsed as it arrives: bounded, whatever the server sends. Any
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
	REPLY_ALL_MAX = 4 * REPLY_MAX, /* with interim heads and the framing of the body */
	REPLY_RETRY_AFTER_MAX_S = 300,
};

enum reply_got { REPLY_MORE, REPLY_DONE, REPLY_BAD };

struct reply {
	struct buf in; /* unread input */
	struct buf body;
	size_t used; /* bytes of `in` that were parsed */
	uint16_t status; /* 0: the final head has not arrived */
	bool keep_alive; /* when done: the connection can be used for another request */
	unsigned retry_after_s; /* 0: not said, or at once */
	const char *why; /* of REPLY_BAD */
	struct http1_body rest;
	struct http1_head head; /* the texts that it borrows are no longer valid */
};

void reply_init(struct reply *r);
void reply_fini(struct reply *r);
enum reply_got reply_take(struct reply *r);
/* The server has closed: returns whether that ends the body. */
bool reply_end(const struct reply *r);

#endif
