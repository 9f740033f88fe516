/*
 * Joins two datagram streams, of two sessions or of one, in both directions: it forwards one
 * datagram after the other, and drops and counts those for which the other stream or a rate has no
 * room (tunnel/udp/dgram.h), so that neither stream holds up its session. Used by a hub that
 * forwards what a node requests; both streams have been answered with 200. Everything on the loop's
 * thread.
 *
 * Takes both streams. `ended` comes once, never from within a call of this header; after it the
 * owner calls dgram_couple_free. dgram_couple_free before that resets both. If nobody listens at
 * the target, that is passed on (STREAM_BROKEN).
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
		*rates[2]; /* limits both directions together; NULL: no limit. They outlive it */
	void (*ended)(void *arg, const struct dgram_couple_report *report);
	void *arg;
	unsigned lost; /* as in relay_setup; 0: STREAM_CANCELLED */
	/* the other end of streams[0], which is this hub's, hears how many datagrams from there
	 * found no room */
	bool tells;
};

struct dgram_couple *dgram_couple_new(const struct dgram_couple_setup *setup);
/* Resets both sides; `ended` will report this `why`, which the caller keeps. */
void dgram_couple_break(struct dgram_couple *c, const char *why);
void dgram_couple_free(struct dgram_couple **c);

#endif
