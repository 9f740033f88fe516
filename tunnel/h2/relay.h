/*
 * Joins a stream of a session with a TCP connection, both ways: bytes, half-close, reset. Nothing
 * is kept here: what cannot be passed on stays in the stream's window or in the socket. Everything
 * on the loop's thread.
 *
 * relay_dial is the far end: it connects, answers 200 only then, and else 502 (refused,
 * unreachable) or 504 (too late). relay_join is the near end, once the answer was 200. Both take
 * the stream (it must be accepted or opened by the caller) and, after `ended`, which comes once and
 * never from within these calls, wait for relay_free. relay_free before that resets both sides. The
 * callback may call relay_free.
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
	uint64_t to_stream, to_socket; /* bytes */
	unsigned status; /* what a dial was answered; 200 for relay_join */
	const char *why; /* "done", or who broke it off and how */
	bool whole; /* both ways ended in good order */
};

typedef void relay_ended_fn(void *arg, const struct relay_report *report);

struct relay_setup {
	struct loop *loop;
	struct stream *stream; /* taken */
	relay_ended_fn *ended;
	void *arg;
	struct rate *rates
		/* what both ways together may move; NULL: no bound. They outlive it */
		[RELAY_RATES];
	uint32_t mark; /* SO_MARK of what relay_dial dials, 0: none */
	unsigned hops; /* base/core/hops.h, of the same */
};

/* timeout_ms 0: RELAY_DIAL_MS. */
struct relay *relay_dial(
	const struct relay_setup *setup, const struct addr *to, unsigned timeout_ms);
/* fd: connected, taken. */
struct relay *relay_join(const struct relay_setup *setup, int fd);
/* Resets both sides; `ended` will tell with this `why`, which stays the caller's. */
void relay_break(struct relay *r, const char *why);
/* Where its socket is bound here. False: it has none. */
bool relay_local(const struct relay *r, struct addr *to);
/* The stream, to tell something of it; NULL: it has ended. */
struct stream *relay_stream(const struct relay *r);
void relay_free(struct relay **r);

#endif
