/*
 * The field Retry-After (RFC 9110 section 10.2.3) as hub and agent use it: whole seconds, within
 * bounds at both ends, and more at random, so that those who are told the same do not come back
 * together. Pure.
 *
 *	retry_after_s(random)			// what the hub says
 *	ms = retry_after_read("7", random);	// what the agent waits
 */
#ifndef EDGEWAY_BASE_HTTP_RETRY_AFTER_H
#define EDGEWAY_BASE_HTTP_RETRY_AFTER_H

#include <stdint.h>

enum {
	RETRY_AFTER_SAID_S = 4, /* the least that a hub says; at most three times that */
	/* what an agent waits at least where the hub could only say that it is busy */
	RETRY_AFTER_BUSY_MS = 2000,
	RETRY_AFTER_MOST_S = 300, /* the most that an agent heeds */
};

/* Seconds to say. */
unsigned retry_after_s(uint64_t random);
/* Milliseconds to wait, at most RETRY_AFTER_MOST_S and a half more; 0: the text says nothing that
 * can be heeded. */
uint64_t retry_after_read(const char *text, uint64_t random);

#endif
