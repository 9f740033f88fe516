/*
 * How much of all streams together may be on the way to one end of a session: HTTP/2's window of
 * the connection (RFC 9113 section 5.2). What is read off the wire makes room at once, whoever it
 * is for: streams have windows of their own for what their owners do not take. So this one bounds
 * what waits in sockets and on the line, in front of whatever comes behind it. It is as wide as the
 * way is long and no wider: a megabyte, and twice as much whenever that has come within two round
 * trips. Plain data, no clock.
 *
 *	conn_window_init(&r, now_ms);
 *	conn_window_sample(&r, rtt_ms);			// of a ping
 *	if (conn_window_came(&r, n, now_ms, &ask))	// r.window is another now; ask: one more sample is of use
 */
#ifndef EDGEWAY_TUNNEL_H2_CONN_WINDOW_H
#define EDGEWAY_TUNNEL_H2_CONN_WINDOW_H

#include "base/core/util.h"

enum {
	CONN_WINDOW_LEAST = 1024 * 1024, /* a millisecond of 1 GB/s */
	CONN_WINDOW_MOST = 32 * 1024 * 1024, /* 640 MB/s at 50 ms */
};

struct conn_window {
	size_t window, came; /* since mark_ms */
	uint64_t mark_ms;
	unsigned rtt_ms[2]; /* the shortest of the last samples, and of those before them */
	unsigned samples;
	unsigned fitted_ms; /* the round trip for which the window has grown */
};

void conn_window_init(struct conn_window *r, uint64_t now_ms);
void conn_window_sample(struct conn_window *r, unsigned rtt_ms);
/* Of the last samples, 8 at least once there are as many; 0: shorter than can be measured, or not
 * known. */
unsigned conn_window_rtt(const struct conn_window *r);
/* So many bytes were read. */
bool conn_window_came(struct conn_window *r, size_t n, uint64_t now_ms, bool *ask);

#endif
