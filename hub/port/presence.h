/*
 * Which nodes are connected, to which replica, and what was last known of disconnected ones: since
 * when, their last address, why their last connection ended. Covers this hub's connections and
 * those that other replicas report, so that every replica has the whole picture. Used by
 * hub/sync/nodes and hub/replicas/peers; pure: times are passed in, in milliseconds since 1970.
 *
 *	conn = presence_here(p, &(struct presence_row){.node = "edge-1", .address = "192.0.2.7:5122", .version = "1.0", .since_ms = now});
 *	presence_gone(p, "edge-1", conn, "the connection was reset", now);
 *	presence_heard(p, line, "hub-b", &row, true);	// row.connected or not
 *	presence_lost(p, line, "hub-b was lost", now);	// its nodes count as away until they come elsewhere
 *
 * Of the first reports of replicas, the newest time wins; after that, the latest report wins, since
 * their clocks may differ. Only a node's own replica reports that the node is connected, and
 * reports the present: that always overrides a report that the node has gone. Bounded:
 * PRESENCE_NODES_MAX nodes, at most PRESENCE_AWAY_MAX of them away; the node that has been away
 * longest is forgotten first.
 */
#ifndef EDGEWAY_HUB_PORT_PRESENCE_H
#define EDGEWAY_HUB_PORT_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PRESENCE_NODES_MAX = 65536,
	PRESENCE_AWAY_MAX = 50000, /* a lost replica may have had them all */
	PRESENCE_ADDRESS_MAX = 63,
	PRESENCE_VERSION_MAX = 63,
	PRESENCE_WORDS_MAX = 159,
};

/* Texts are borrowed; those that presence returns are valid until the next change. Longer texts are
 * cut. */
struct presence_row {
	const char *node;
	const char *at; /* the replica that has it or had it last; "": this hub */
	const char *address, *version;
	const char *words; /* why its last connection ended; "" while it is connected */
	int64_t since_ms; /* since when it is connected, or away */
	uint64_t conn; /* number of this hub's connection, as presence_here returned it; 0: none */
	bool connected;
};

struct presence;

struct presence *presence_new(void);
void presence_free(struct presence **p);
/* The node is connected to this hub. Returns a unique number of the connection: two may begin in
 * the same millisecond. */
uint64_t presence_here(struct presence *p, const struct presence_row *row);
/* This connection of the node has ended. False: nothing changes, it has a newer one here or
 * elsewhere. */
bool presence_gone(
	struct presence *p, const char *node, uint64_t conn, const char *words, int64_t now_ms);
/* from: the reporting connection, until presence_lost; now: it has just happened. */
void presence_heard(struct presence *p, const void *from, const char *at,
	const struct presence_row *row, bool now);
void presence_lost(struct presence *p, const void *from, const char *words, int64_t now_ms);
/* Reports of `from` now count as those of `to`, another connection of the same replica. */
void presence_hand_over(struct presence *p, const void *from, const void *to);
/* The node no longer exists. */
void presence_forget(struct presence *p, const char *node);
/* False: the node is unknown. */
bool presence_find(const struct presence *p, const char *node, struct presence_row *to);
/* Number of nodes connected to other replicas. */
size_t presence_elsewhere(const struct presence *p);
/* All nodes; those away in the order in which they left. fn must not change anything. */
void presence_each(
	const struct presence *p, void (*fn)(void *arg, const struct presence_row *row), void *arg);

#endif
