/*
 * What a peer's HTTP/2 frames ask for without carrying anything (RFC 9113 section 10.5): reads the
 * heads of frames in the bytes as they come off the wire and counts those that are of no use. An
 * honest peer sends few: a ping per heartbeat, a window update for some kilobytes that it was sent,
 * a reset for a stream. Whoever sends more than FRAME_BUDGET_RATE a second, beyond
 * FRAME_BUDGET_BURST at once, is to be cut. Plain data, no clock, no session.
 *
 *	frame_budget_init(&b, preface_bytes, now_ms);
 *	if ((kind = frame_budget_read(&b, bytes, n, now_ms)) != NULL)	// too many, the last were PRIORITY
 *		cut;
 */
#ifndef EDGEWAY_TUNNEL_H2_FRAME_BUDGET_H
#define EDGEWAY_TUNNEL_H2_FRAME_BUDGET_H

#include "base/core/util.h"

enum {
	FRAME_BUDGET_HEAD = 9,
	FRAME_BUDGET_RATE = 1000, /* useless frames a second */
	FRAME_BUDGET_BURST = 8000,
	FRAME_BUDGET_LARGE_HEAD = 256, /* what a field section beyond all limits costs */
};

struct frame_budget {
	uint64_t useless; /* in all */
	uint64_t filled_ms; /* up to when `left` was filled */
	unsigned left;
	unsigned credit; /* of window updates, resets and the like: earned by streams and bytes */
	/* that streams may still have: thousands of quiet ones have them at once when nodes
	 * drain */
	unsigned fadings;
	unsigned sent_bytes; /* that have not earned any yet */
	size_t skip; /* bytes until the next head */
	unsigned have; /* bytes of it */
	uint8_t head[FRAME_BUDGET_HEAD];
};

/* preface: bytes that come before the first frame. */
void frame_budget_init(struct frame_budget *b, size_t preface, uint64_t now_ms);
/* All bytes, in the order of their coming. NULL: it may go on; else the kind of the last of those
 * that were too many. */
const char *frame_budget_read(
	struct frame_budget *b, const uint8_t *bytes, size_t n, uint64_t now_ms);
/* So many useless frames more, which the caller has seen. False: that was too many. */
bool frame_budget_spend(struct frame_budget *b, unsigned n, uint64_t now_ms);
/* A stream was opened, by whomever; so many bytes of DATA were sent to the peer. */
void frame_budget_stream(struct frame_budget *b);
void frame_budget_sent(struct frame_budget *b, size_t bytes);

#endif
