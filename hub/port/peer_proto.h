/*
 * What one replica of the hub tells another of its nodes: lines of text on a long stream
 * (doc/protocol.md, "Between replicas"). Pure; the bytes are another hub's, and checked like a
 * stranger's.
 *
 *	while ((rc = peer_proto_read(bytes, n, &used, &said)) > 0)	// said.word; then bytes += used
 *	if (rc < 0)	// -EPROTO: said.why
 *
 * A word that is not known is passed over: later versions may say more.
 */
#ifndef EDGEWAY_HUB_PORT_PEER_PROTO_H
#define EDGEWAY_HUB_PORT_PEER_PROTO_H

#include "base/core/buf.h"
#include "hub/port/presence.h"
#include "model/mesh.h"
#include "tunnel/tunnel.h"

/* ALPN of a connection between replicas. */
#define PEER_ALPN "edgeway-peer/1"

enum {
	PEER_LINE_MAX = 640, /* with its line feed */
	PEER_ID_TEXT = 33, /* 16 random bytes in hex and NUL: a process, not a machine */
	PEER_NAME_TEXT = 64, /* with NUL */
};

enum peer_word {
	PEER_SAYS_HUB, /* id, name: who speaks; first */
	PEER_SAYS_HOLDS, /* node, epoch: its tunnel ends there */
	PEER_SAYS_GONE, /* node: not any more */
	/* node: it holds a certificate; whether it is reached is said by others */
	PEER_SAYS_JOINED,
	/* node: what it reaches beside itself follows, in place of what was said before */
	PEER_SAYS_DECLARES,
	PEER_SAYS_REACH, /* node, entry: that (tunnel/node/reachable_nets.h) */
	PEER_SAYS_FORGETS, /* node: it declares nothing there any more */
	PEER_SAYS_THERE, /* node, since, address, version: it is connected there */
	PEER_SAYS_AWAY, /* node, since, address, version, words: it was, and is not any more */
	PEER_SAYS_TROUBLE, /* words: what is wrong with that hub itself; "" nothing any more */
	PEER_SAYS_WHOLE, /* everything has been said once; what follows are changes */
	PEER_SAYS_LEAVING, /* this hub stops: its nodes go to others */
	PEER_SAYS_OTHER,
};

struct peer_said {
	enum peer_word word;
	uint64_t epoch; /* 1 to PEER_EPOCH_MAX */
	char node[MESH_NODE_MAX + 1];
	char entry[REACHABLE_NETS_ENTRY_MAX + 1];
	char id[PEER_ID_TEXT];
	char name[PEER_NAME_TEXT];
	int64_t since_ms; /* of THERE and AWAY, in milliseconds since 1970 */
	char address[PRESENCE_ADDRESS_MAX + 1], version[PRESENCE_VERSION_MAX + 1];
	char words[PRESENCE_WORDS_MAX + 1];
	const char *why; /* with -EPROTO */
};

/* Leaves room above for those that are given after it. */
#define PEER_EPOCH_MAX ((uint64_t)1 << 62)

/* 1: a line of *used bytes; 0: it has not come whole; -EPROTO. */
int peer_proto_read(const char *bytes, size_t n, size_t *used, struct peer_said *to);

bool peer_proto_id_ok(const char *id);
/* Host name or the like: letters, digits, '.', '-', '_'. */
bool peer_proto_name_ok(const char *name);
void peer_proto_hub(struct buf *to, const char *id, const char *name);
/* HOLDS; GONE, JOINED do without the epoch; WHOLE, LEAVING without the node. */
void peer_proto_say(struct buf *to, enum peer_word word, const char *node, uint64_t epoch);
void peer_proto_reach(struct buf *to, const char *node, const char *entry);
/* PRESENCE_WORDS_MAX bytes of it. */
void peer_proto_trouble(struct buf *to, const char *text);
/* THERE or AWAY. Its texts are a node's: what does not fit into a line is left out. */
void peer_proto_presence(struct buf *to, const struct presence_row *row);

#endif
