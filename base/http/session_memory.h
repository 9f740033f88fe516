/*
 * Memory for nghttp2. Each nghttp2 session has two large allocations that an idle connection does
 * not need: a 16 KiB buffer in which it builds frames (only the first few hundred bytes are used,
 * because DATA is never copied there) and a zeroed table of streams. Both are mapped, so untouched
 * pages take no memory; the pages of the buffer are given back whenever a session without streams
 * has nothing to send.
 *
 * The owner of a session that is idle most of the time says `making`: what nghttp2_session_*_new3
 * takes (5 KB: the session and the rings of its HPACK tables) is in one mapping with that buffer,
 * and packed into about 1 KB by session_memory_idle. Then nothing of the session may be used before
 * session_memory_wake, which puts it back where it was.
 *
 * Everything else uses malloc, and is counted. One per session; it outlives the session.
 *
 *	session_memory_init(&memory);
 *	nghttp2_session_server_new3(&ng, callbacks, s, option, &memory.calls);
 */
#ifndef EDGEWAY_BASE_HTTP_SESSION_MEMORY_H
#define EDGEWAY_BASE_HTTP_SESSION_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <nghttp2/nghttp2.h>

struct session_memory {
	nghttp2_mem calls;
	struct {
		void *p;
		size_t bytes;
	} frames, table; /* mapped; NULL: none, or allocated by malloc */
	struct {
		char *p; /* mapped, with what was made with the session; NULL: malloc has it */
		size_t used;
	} space;
	uint64_t *packed; /* the content of space, while it is idle */
	size_t bytes; /* of malloc's */
	bool making; /* before the session is made: it is often idle */
	bool used; /* a frame was built since session_memory_rest */
};

void session_memory_init(struct session_memory *m);
/* No frame is being built or sent: the buffer's content is not needed. */
void session_memory_rest(struct session_memory *m);
/* The same; and there is no stream, so that the table is all zero, as it is after that. */
void session_memory_idle(struct session_memory *m);
void session_memory_wake(struct session_memory *m);
/* Bytes that the session takes now. */
size_t session_memory_held(const struct session_memory *m);

#endif
