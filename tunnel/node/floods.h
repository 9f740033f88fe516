/*
 * For whoever nodes connect to, a hub or another node: blocks nodes whose connection was cut
 * because of frames that carry nothing (base/http/frame_budget.h). They get no other one for
 * FLOODS_REST_MS, or they would continue in it at the cost of a handshake. Remembers the last
 * FLOODS_MOST nodes, and which node was read later last, as it gives up what it has asked for too
 * often. On one loop.
 *
 *	floods = floods_new("hub");
 *	floods_note(floods, "edge-1", now_ms);
 *	if (floods_rests(floods, "edge-1", now_ms))
 *		refuse;
 */
#ifndef EDGEWAY_TUNNEL_NODE_FLOODS_H
#define EDGEWAY_TUNNEL_NODE_FLOODS_H

#include "base/core/metric.h"

enum { FLOODS_REST_MS = 10 * 1000, FLOODS_MOST = 64 };

struct floods;

/* flooded: what it is for the text about a node, "hub" or "node"; static. */
struct floods *floods_new(const char *flooded);
void floods_free(struct floods **f);
/* The node's connection was cut. */
void floods_note(struct floods *f, const char *node, uint64_t now_ms);
/* The node was read later, so many times (session_limits.resets_per_s). */
void floods_slowed(struct floods *f, const char *node, uint64_t times, uint64_t now_ms);
/* True if the node still has to wait. f NULL: false. */
bool floods_rests(const struct floods *f, const char *node, uint64_t now_ms);
/* {"cut","trouble"}: how many were cut, and a sentence about the last one, or else about the last
 * that was read later, while that is recent. */
void floods_state(const struct floods *f, uint64_t now_ms, struct buf *out);
void floods_metrics(const struct floods *f, struct metrics *m);

#endif
