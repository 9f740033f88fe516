/*
 * Limits frames from a peer that cause work but carry nothing (RFC 9113 section 10.5). Reads the
 * frame headers in the raw bytes from the wire and counts the useless frames. A well-behaved peer
 * sends few: a ping per heartbeat, a window update per few kilobytes that it received, a reset per
 * stream. A peer that sends more than FRAME_BUDGET_RATE per second, beyond a burst of
 * FRAME_BUDGET_BURST, is to be disconnected. Plain data, no clock, no session.
 *
 *	frame_budget_init(&b, preface_bytes, head_free, now_ms);
 *	if ((kind = frame_budget_read(&b, bytes, n, now_ms)) != NULL)	// too many, the last were PRIORITY
 *		cut;
 */
#ifndef EDGEWAY_BASE_HTTP_FRAME_BUDGET_H
#define EDGEWAY_BASE_HTTP_FRAME_BUDGET_H

#include "base/core/util.h"

enum {
	FRAME_BUDGET_HEAD = 9,
	FRAME_BUDGET_RATE = 1000, /* useless frames a second */
	FRAME_BUDGET_BURST = 8000,
	FRAME_BUDGET_LARGE_HEAD = 256, /* cost of a header section beyond all limits */
};

struct frame_budget {
	uint64_t useless; /* total */
	uint64_t filled_ms; /* time up to which `left` was refilled */
	unsigned left;
	/* for window updates, resets and similar frames: earned by streams and by bytes sent */
	unsigned credit;
	unsigned pings; /* still allowed: of peers that measure the path with each DATA (gRPC) */
	size_t head_free; /* bytes of a header section that cost nothing */
	size_t head_bytes; /* of the one that is being read */
	/* fading frames still allowed: when nodes drain, thousands of idle streams get one at
	 * once */
	unsigned fadings;
	unsigned sent_bytes; /* bytes sent that have not earned credit yet */
	size_t skip; /* bytes until the next frame header */
	unsigned have; /* bytes of that header read so far */
	uint8_t head[FRAME_BUDGET_HEAD]; /* of the frame */
};

/* preface: number of bytes before the first frame. head_free: bytes of a compressed header section
 * that are as useful as the stream; of what is longer each sixteen count as a frame. */
void frame_budget_init(struct frame_budget *b, size_t preface, size_t head_free, uint64_t now_ms);
/* Takes all bytes, in order of arrival. NULL: within the budget; else the type of the last frame
 * that was over it. */
const char *frame_budget_read(
	struct frame_budget *b, const uint8_t *bytes, size_t n, uint64_t now_ms);
/* Charges n more useless frames that the caller found itself. False: over the budget. */
bool frame_budget_spend(struct frame_budget *b, unsigned n, uint64_t now_ms);
/* A stream was opened, by either end; a DATA frame of so many bytes was sent to the peer. whole: it
 * took all that there was, so it was not the peer's window that made it so small. */
void frame_budget_stream(struct frame_budget *b);
void frame_budget_sent(struct frame_budget *b, size_t bytes, bool whole);

#endif
