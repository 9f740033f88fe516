/*
 * Joins two streams, of two sessions or of one, in both directions: bytes, half-close, reset.
 * Nothing is buffered here: bytes that cannot be forwarded stay in the window of the stream they
 * came on, so a slow reader holds up only its own writer. Used by a hub that forwards what another
 * hub requests; both streams have been answered with 200. Everything on the loop's thread.
 *
 * Takes both streams. `ended` comes once, never from within a call of this header; after it the
 * owner calls stream_join_free. stream_join_free before that resets both.
 *
 *	couple = stream_join_new(&(struct stream_join_setup){.loop = loop, .streams = {near, far}, .ended = on_end, .arg = me});
 */
#ifndef EDGEWAY_TUNNEL_H2_STREAM_JOIN_H
#define EDGEWAY_TUNNEL_H2_STREAM_JOIN_H

#include "base/core/rate.h"
#include "tunnel/h2/session.h"

struct stream_join;

struct stream_join_report {
	uint64_t bytes[2]; /* received on the first stream, and on the second */
	const char *why; /* "done", or which side broke it off and how */
	bool whole;
};

struct stream_join_setup {
	struct loop *loop;
	struct stream *streams[2];
	struct rate *rate; /* limits both directions together; NULL: no limit. Outlives the join */
	void (*ended)(void *arg, const struct stream_join_report *report);
	void *arg;
};

struct stream_join *stream_join_new(const struct stream_join_setup *setup);
/* One of the streams, for diagnostics; NULL: it has ended. */
struct stream *stream_join_stream(const struct stream_join *c, unsigned which);
void stream_join_free(struct stream_join **c);

#endif
