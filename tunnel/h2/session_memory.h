/*
 * Memory for nghttp2. A session of its has two large pieces of which an idle tunnel needs nothing:
 * a buffer of 16 KiB for frames that it builds (of ours it uses the first few hundred bytes, for
 * DATA is never copied there) and a table of streams, zeroed. Both come from pages that nobody has
 * touched; those of the buffer are given back whenever a session without streams has nothing to
 * send. All else is malloc's. One for each session; it outlives the session.
 *
 *	session_memory_init(&memory);
 *	nghttp2_session_server_new3(&ng, callbacks, s, option, &memory.calls);
 */
#ifndef EDGEWAY_TUNNEL_H2_SESSION_MEMORY_H
#define EDGEWAY_TUNNEL_H2_SESSION_MEMORY_H

#include <stdbool.h>

#include <nghttp2/nghttp2.h>

struct session_memory {
	nghttp2_mem calls;
	struct {
		void *p;
		size_t bytes;
	} frames, table; /* mapped; NULL: none, or malloc's */
	bool used; /* a frame was built since session_memory_rest */
};

void session_memory_init(struct session_memory *m);
/* No frame is being built or sent: the buffer's content is of no use. */
void session_memory_rest(struct session_memory *m);

#endif
