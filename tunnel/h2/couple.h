/*
 * Joins two streams, of two sessions or of one, both ways: bytes, half-close, reset. Nothing is
 * kept here: what cannot be passed on stays in the window of the stream it came by, so whoever
 * reads slowly holds up its own writer and nobody else. For a hub that passes on what another one
 * asks for; both streams have been answered with 200. Everything on the loop's thread.
 *
 * Takes both streams. `ended` comes once, never from within a call of this header; then couple_free
 * is what is left to do. couple_free before that resets both.
 *
 *	couple = couple_new(&(struct couple_setup){.loop = loop, .streams = {near, far}, .ended = on_end, .arg = me});
 */
#ifndef EDGEWAY_TUNNEL_H2_COUPLE_H
#define EDGEWAY_TUNNEL_H2_COUPLE_H

#include "base/core/rate.h"
#include "tunnel/h2/session.h"

struct couple;

struct couple_report {
	uint64_t bytes[2]; /* that came by the first stream, and by the second */
	const char *why; /* "done", or who broke it off and how */
	bool whole;
};

struct couple_setup {
	struct loop *loop;
	struct stream *streams[2];
	struct rate *rate; /* what both ways together may move; NULL: no bound. Outlives it */
	void (*ended)(void *arg, const struct couple_report *report);
	void *arg;
};

struct couple *couple_new(const struct couple_setup *setup);
/* Resets both sides; `ended` will tell with this `why`, which stays the caller's. */
void couple_break(struct couple *c, const char *why);
/* A stream, to tell something of it; NULL: it has ended. */
struct stream *couple_stream(const struct couple *c, unsigned which);
void couple_free(struct couple **c);

#endif
