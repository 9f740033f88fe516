/*
 * Joins two streams of datagrams, of two sessions or of one, both ways: one datagram after the
 * other, and what the other stream or a rate has no room for is dropped and counted
 * (tunnel/udp/dgram.h), so that neither holds up its session. For a hub that passes on what a node
 * asks for; both streams have been answered with 200. Everything on the loop's thread.
 *
 * Takes both streams. `ended` comes once, never from within a call of this header; then
 * dgram_couple_free is what is left to do, which before that resets both. That nobody listens at
 * the target is passed on (STREAM_BROKEN).
 *
 *	couple = dgram_couple_new(&(struct dgram_couple_setup){.loop = loop, .streams = {near, far}, .ended = on_end, .arg = me});
 */
#ifndef EDGEWAY_TUNNEL_UDP_DGRAM_COUPLE_H
#define EDGEWAY_TUNNEL_UDP_DGRAM_COUPLE_H

#include "base/core/rate.h"
#include "tunnel/udp/dgram.h"

struct dgram_couple;

struct dgram_couple_report {
	struct dgram_tally tally; /* to_stream: from the first to the second */
	const char *why;
};

struct dgram_couple_setup {
	struct loop *loop;
	struct stream *streams[2];
	struct rate
		*rates[2]; /* what both ways together may move; NULL: no bound. They outlive it */
	void (*ended)(void *arg, const struct dgram_couple_report *report);
	void *arg;
};

struct dgram_couple *dgram_couple_new(const struct dgram_couple_setup *setup);
/* Resets both sides; `ended` will tell with this `why`, which stays the caller's. */
void dgram_couple_break(struct dgram_couple *c, const char *why);
void dgram_couple_free(struct dgram_couple **c);

#endif
