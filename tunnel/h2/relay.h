/*
 * Joins a stream of a session with a TCP connection, or with another stream, in both directions:
 * bytes, half-close, reset. The relay buffers nothing: bytes that cannot be forwarded stay in the
 * window of the stream that they came on, or in the socket, so a slow reader holds up only its own
 * writer. Everything on the loop's thread.
 *
 * relay_dial is for the far end: it connects and answers 200 only once connected, else 502
 * (refused, unreachable) or 504 (timeout). relay_join is for the near end, once the answer was 200.
 * relay_join_stream is for a hub that forwards what a node or another hub requests, once both
 * streams were answered with 200. All take the streams, which the caller must have accepted or
 * opened. `ended` comes once, never from within these calls; after it the owner calls relay_free.
 * relay_free before `ended` resets both sides. The callback may call relay_free.
 *
 *	relay = relay_dial(&(struct relay_setup){.loop = loop, .stream = st, .ended = on_end, .arg = me}, &to, 0);
 */
#ifndef EDGEWAY_TUNNEL_H2_RELAY_H
#define EDGEWAY_TUNNEL_H2_RELAY_H

#include "base/core/rate.h"
#include "base/core/sock.h"
#include "tunnel/h2/session.h"

struct relay;

enum { RELAY_DIAL_MS = 5000, RELAY_RATES = 2 };

struct relay_report {
	uint64_t to_stream, to_other; /* bytes; other: the socket, or the other stream */
	const char *why; /* "done", or which side broke it off and how */
	unsigned status; /* what the dial was answered with, else 200 */
	bool whole; /* both directions ended cleanly */
};

typedef void relay_ended_fn(void *arg, const struct relay_report *report);

struct relay_setup {
	struct loop *loop;
	struct stream *stream; /* taken */
	relay_ended_fn *ended;
	void *arg;
	struct rate *rates
		/* limits on both directions together; NULL: no limit. They outlive the relay */
		[RELAY_RATES];
	uint32_t mark; /* SO_MARK of the sockets that relay_dial opens; 0: none */
	unsigned hops; /* base/core/hops.h, for the same sockets */
	/* two streams: the code for one when the session of the other has ended; 0: STREAM_BROKEN,
	 * of datagrams STREAM_CANCELLED */
	unsigned lost;
	/* two streams of datagrams: the other end of `stream`, which is this hub's, hears how many
	 * from there found no room */
	bool tells;
};

/* timeout_ms 0: RELAY_DIAL_MS. */
struct relay *relay_dial(
	const struct relay_setup *setup, const struct addr *to, unsigned timeout_ms);
/* fd: connected, taken. */
struct relay *relay_join(const struct relay_setup *setup, int fd);
/* setup->stream: opened by the other end; other: opened here, taken. That the target of `other`
 * stops soon is passed on (stream_fade). */
struct relay *relay_join_stream(const struct relay_setup *setup, struct stream *other);
/* Resets both sides; `ended` will report this `why`, which the caller keeps. */
void relay_break(struct relay *r, const char *why);
/* The local address of the socket. False: there is no socket. */
bool relay_local(const struct relay *r, struct addr *to);
/* The stream, for diagnostics; NULL: it has ended. */
struct stream *relay_stream(const struct relay *r);
void relay_free(struct relay **r);

#endif
