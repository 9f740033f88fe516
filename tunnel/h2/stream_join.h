/*
 * Joins two streams, of two sessions or of one, both ways: bytes, half-close, reset. Nothing is
 * kept here: what cannot be passed on stays in the window of the stream it came by, so whoever
 * reads slowly holds up its own writer and nobody else. For a hub that passes on what another one
 * asks for; both streams have been answered with 200. Everything on the loop's thread.
 *
 * Takes both streams. `ended` comes once, never from within a call of this header; then
 * stream_join_free is what is left to do. stream_join_free before that resets both.
 *
 *	couple = stream_join_new(&(struct stream_join_setup){.loop = loop, .streams = {near, far}, .ended = on_end, .arg = me});
 */
#ifndef EDGEWAY_TUNNEL_H2_STREAM_JOIN_H
#define EDGEWAY_TUNNEL_H2_STREAM_JOIN_H

#include "base/core/rate.h"
#include "tunnel/h2/session.h"

struct stream_join;

struct stream_join_report {
	uint64_t bytes[2]; /* that came by the first stream, and by the second */
	const char *why; /* "done", or who broke it off and how */
	bool whole;
};

struct stream_join_setup {
	struct loop *loop;
	struct stream *streams[2];
	struct rate *rate; /* what both ways together may move; NULL: no bound. Outlives it */
	void (*ended)(void *arg, const struct stream_join_report *report);
	void *arg;
};

struct stream_join *stream_join_new(const struct stream_join_setup *setup);
/* A stream, to tell something of it; NULL: it has ended. */
struct stream *stream_join_stream(const struct stream_join *c, unsigned which);
void stream_join_free(struct stream_join **c);

#endif
