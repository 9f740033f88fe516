/*
 * Memory for nghttp2. A session of its has one buffer of 16 KiB for frames that it builds, of which ours use the first few
 * hundred bytes, for DATA is never copied there. Such buffers come from pages that nobody has touched, so that a
 * session costs a page of it and not four. All else is malloc's. One for each session; it outlives the session.
 *
 *	session_memory_init(&memory);
 *	nghttp2_session_server_new3(&ng, callbacks, s, option, &memory.calls);
 */
#ifndef EDGEWAY_TUNNEL_SESSION_MEMORY_H
#define EDGEWAY_TUNNEL_SESSION_MEMORY_H

#include <nghttp2/nghttp2.h>

struct session_memory {
	nghttp2_mem calls;
	void *mapped;
	size_t mapped_bytes;
};

void session_memory_init(struct session_memory *m);

#endif
