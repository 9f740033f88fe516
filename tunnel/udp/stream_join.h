/*
 * Joins two streams, of two sessions or of one, in both directions, for a hub that forwards what a
 * node or another hub requests; both have been answered with 200. Bytes go by a relay
 * (relay_join_stream). Of datagrams one after the other is forwarded, and those are dropped for
 * which the other stream or a rate has no room (tunnel/udp/dgram.h), so that neither stream holds
 * up its session; that nobody listens at the target is passed on (STREAM_BROKEN). Everything on
 * the loop's thread.
 *
 * Takes both streams. `ended` comes once, never from within a call of this header; after it the
 * owner calls stream_join_fini. Before that, stream_join_fini resets both.
 *
 *	stream_join_init(&join, &(struct relay_setup){.loop = loop, .stream = near, .ended = on_end, .arg = me}, far);
 */
#ifndef EDGEWAY_TUNNEL_UDP_STREAM_JOIN_H
#define EDGEWAY_TUNNEL_UDP_STREAM_JOIN_H

#include "tunnel/h2/relay.h"

struct dgram_couple;

struct stream_join { /* all zero: nothing is joined */
	struct relay *relay;
	struct dgram_couple *couple; /* for datagrams, in place of the relay */
};

/* setup: as for relay_join_stream. */
void stream_join_init(struct stream_join *j, const struct relay_setup *setup, struct stream *other);
/* Resets both sides; `ended` will report this `why`, which the caller keeps. */
void stream_join_break(struct stream_join *j, const char *why);
void stream_join_fini(struct stream_join *j);

#endif
