/*
 * The text lines by which one replica of the hub reports its nodes to another, on a long-lived
 * stream (doc/protocol.md, "Between replicas"). Pure; the bytes come from another hub and are
 * checked like untrusted input.
 *
 *	while ((rc = peer_proto_read(bytes, n, &used, &said)) > 0)	// said.word; then bytes += used
 *	if (rc < 0)	// -EPROTO: said.why
 *
 * An unknown word is ignored: later versions may send more.
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
	PEER_LINE_MAX = 640, /* including its line feed */
	PEER_ID_TEXT = 33, /* 16 random bytes in hex and NUL: identifies a process, not a machine */
	PEER_NAME_TEXT = 64, /* with NUL */
};

enum peer_word {
	PEER_SAYS_HUB, /* id, name: the sender; first line */
	PEER_SAYS_HOLDS, /* node, epoch: its tunnel ends at that replica */
	PEER_SAYS_GONE, /* node: no longer */
	/* node: it holds a certificate; other words say whether it is reachable */
	PEER_SAYS_JOINED,
	/* node: its reachable networks follow and replace earlier ones */
	PEER_SAYS_DECLARES,
	PEER_SAYS_REACH, /* node, entry: one of them (tunnel/node/reachable_nets.h) */
	PEER_SAYS_FORGETS, /* node: it no longer announces any there */
	PEER_SAYS_THERE, /* node, since, address, version: it is connected to that replica */
	/* node, since, address, version, words: it was connected, and is not any more */
	PEER_SAYS_AWAY,
	PEER_SAYS_TROUBLE, /* words: a fault of that hub itself; "": none any more */
	PEER_SAYS_WHOLE, /* the full state has been sent; changes follow */
	PEER_SAYS_LEAVING, /* this hub stops: its nodes move to others */
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

/* Leaves room above for epochs assigned later. */
#define PEER_EPOCH_MAX ((uint64_t)1 << 62)

/* 1: a line of *used bytes; 0: the line is incomplete; -EPROTO. */
int peer_proto_read(const char *bytes, size_t n, size_t *used, struct peer_said *to);

bool peer_proto_id_ok(const char *id);
/* A host name or similar: letters, digits, '.', '-', '_'. */
bool peer_proto_name_ok(const char *name);
void peer_proto_hub(struct buf *to, const char *id, const char *name);
/* HOLDS; GONE and JOINED without the epoch; WHOLE and LEAVING without the node. */
void peer_proto_say(struct buf *to, enum peer_word word, const char *node, uint64_t epoch);
void peer_proto_reach(struct buf *to, const char *node, const char *entry);
/* At most PRESENCE_WORDS_MAX bytes of text. */
void peer_proto_trouble(struct buf *to, const char *text);
/* THERE or AWAY. The texts come from a node: text that does not fit into a line is cut. */
void peer_proto_presence(struct buf *to, const struct presence_row *row);

#endif
