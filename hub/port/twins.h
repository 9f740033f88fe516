/*
 * Nodes whose sessions replace each other again and again: two machines use one node's identity (a
 * copied disk), or its connection is cut without this hub hearing of it. Remembers the last
 * TWINS_MOST nodes of which a session was replaced. On the hub's loop.
 *
 *	if (twins_note(twins, "edge-1", "192.0.2.11:34800", "192.0.2.12:50152", now_ms))
 *		log it;
 */
#ifndef EDGEWAY_HUB_PORT_TWINS_H
#define EDGEWAY_HUB_PORT_TWINS_H

#include <stdbool.h>

#include "base/core/metric.h"

enum { TWINS_MOST = 64 };

struct twins;

struct twins *twins_new(void);
void twins_free(struct twins **t);
/* A session of the node was replaced. Returns true if that happens again and again. */
bool twins_note(
	struct twins *t, const char *node, const char *older, const char *newer, uint64_t now_ms);
/* [{"node","replaced","older","newer"}]: those that do so now. */
void twins_state(const struct twins *t, uint64_t now_ms, struct buf *out);
void twins_metrics(const struct twins *t, uint64_t now_ms, struct metrics *m);

#endif
