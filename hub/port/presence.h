/*
 * Which nodes are connected, to which replica, and what was last known of those that are away:
 * since when, their last address, why their last connection ended. Of this hub's own connections
 * and of what other replicas tell of theirs, so that every replica can tell the whole. A leaf of
 * hub/sync/nodes and hub/replicas/peers: pure, times are given, in milliseconds since 1970.
 *
 *	conn = presence_here(p, &(struct presence_row){.node = "edge-1", .address = "192.0.2.7:5122", .version = "1.0", .since_ms = now});
 *	presence_gone(p, "edge-1", conn, "the connection was reset", now);
 *	presence_heard(p, line, "hub-b", &row, true);	// row.connected or not
 *	presence_lost(p, line, "hub-b was lost", now);	// its nodes count as away until they come elsewhere
 *
 * Of what replicas tell at first the newest counts, and then what is told last: their clocks may
 * differ. That a node is connected only its own replica says, of the present: it always beats that
 * it went. Bounded: PRESENCE_NODES_MAX nodes, of which PRESENCE_AWAY_MAX away; who has been away
 * for longest is forgotten first.
 */
#ifndef EDGEWAY_HUB_PORT_PRESENCE_H
#define EDGEWAY_HUB_PORT_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PRESENCE_NODES_MAX = 65536,
	PRESENCE_AWAY_MAX = 8192,
	PRESENCE_ADDRESS_MAX = 63,
	PRESENCE_VERSION_MAX = 63,
	PRESENCE_WORDS_MAX = 159,
};

/* Texts are borrowed, until the next change where presence gives them; what is too long is cut. */
struct presence_row {
	const char *node;
	const char *at; /* the replica that has it or had it last; "" this hub */
	const char *address, *version;
	const char *words; /* why its last connection ended; "" while it is connected */
	int64_t since_ms; /* connected, or away */
	uint64_t conn; /* which one of this hub's, 0: none; as presence_here has given it */
	bool connected;
};

struct presence;

struct presence *presence_new(void);
void presence_free(struct presence **p);
/* At this hub. Returns the connection's number, unlike that of any other: two may be of the same
 * millisecond. */
uint64_t presence_here(struct presence *p, const struct presence_row *row);
/* This connection of it has ended. False: nothing changes, it has a newer one here or elsewhere. */
bool presence_gone(
	struct presence *p, const char *node, uint64_t conn, const char *words, int64_t now_ms);
/* from: who says so, until presence_lost; now: it has just happened. */
void presence_heard(struct presence *p, const void *from, const char *at,
	const struct presence_row *row, bool now);
void presence_lost(struct presence *p, const void *from, const char *words, int64_t now_ms);
/* What `from` has said is as if `to`, of the same replica, had. */
void presence_hand_over(struct presence *p, const void *from, const void *to);
/* The node is no node any more. */
void presence_forget(struct presence *p, const char *node);
/* False: nothing is known of it. */
bool presence_find(const struct presence *p, const char *node, struct presence_row *to);
/* Nodes that are connected to another replica. */
size_t presence_elsewhere(const struct presence *p);
/* All; those that are away in the order in which they went. fn changes nothing. */
void presence_each(
	const struct presence *p, void (*fn)(void *arg, const struct presence_row *row), void *arg);

#endif
