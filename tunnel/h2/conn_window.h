/*
 * The receive window of a whole HTTP/2 connection (RFC 9113 section 5.2): how many bytes of all
 * streams together may be in flight to one end of a session. Bytes read off the wire reopen this
 * window at once, whichever stream they belong to: streams have windows of their own for what their
 * owners have not consumed. So this window bounds only what waits in sockets and on the path, ahead
 * of later data. It follows the bandwidth-delay product: it starts at four megabytes, and becomes
 * four times what one round trip has brought whenever that was more than half of it (the receive
 * buffer of Linux' TCP follows its path in this way). Plain data, no clock.
 *
 *	conn_window_init(&r, now_ms);
 *	conn_window_sample(&r, rtt_ms);			// of a ping
 *	if (conn_window_came(&r, n, now_ms, &ask))	// r.window is another now; ask: one more sample is of use
 */
#ifndef EDGEWAY_TUNNEL_H2_CONN_WINDOW_H
#define EDGEWAY_TUNNEL_H2_CONN_WINDOW_H

#include "base/core/util.h"

enum {
	/* 4 ms at 1 GB/s: as long as the other end may wait for its turn on a busy processor */
	CONN_WINDOW_LEAST = 4 * 1024 * 1024,
	CONN_WINDOW_MOST = 96 * 1024 * 1024, /* 2 GB/s at 50 ms */
};

struct conn_window {
	size_t window, came; /* came: bytes since mark_ms, in this round trip */
	uint64_t mark_ms;
	/* the shortest of the latest samples, and of the samples before those */
	unsigned rtt_ms[2];
	unsigned samples;
	unsigned fitted_ms; /* the round-trip time for which the window was last raised */
};

void conn_window_init(struct conn_window *r, uint64_t now_ms);
void conn_window_sample(struct conn_window *r, unsigned rtt_ms);
/* The shortest of the last samples (at least 8 once that many exist); 0: too short to measure, or
 * not known yet. */
unsigned conn_window_rtt(const struct conn_window *r);
/* n bytes were read. */
bool conn_window_came(struct conn_window *r, size_t n, uint64_t now_ms, bool *ask);

#endif
