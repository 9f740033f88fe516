/*
 * What is said on a rendezvous connection (ALPN edgeway-rendezvous/1, doc/protocol.md "Across
 * NAT"): a node says one line to the hub, which answers with one. The hub sees by what address and
 * port the node's NAT shows it; from the same local port the node then connects to the other node.
 * Pure; the bytes are the peer's.
 *
 *	used = rendezvous_line_read(bytes, n, &line);	// 0: more bytes are needed
 */
#ifndef EDGEWAY_TUNNEL_NODE_RENDEZVOUS_LINE_H
#define EDGEWAY_TUNNEL_NODE_RENDEZVOUS_LINE_H

#include <sys/types.h>

#include "base/core/buf.h"
#include "base/core/sock.h"

/* The stream by which the hub invites the other node, or one hub tells another that a node has
 * come. */
#define RENDEZVOUS_AUTHORITY "edgeway-rendezvous:1"
#define RENDEZVOUS_ID "edgeway-rendezvous" /* field: the attempt's id */
#define RENDEZVOUS_NODE "edgeway-caller" /* field: the node that asks, or has come */
#define RENDEZVOUS_ADDRESS "edgeway-address" /* field, between hubs: what that node is seen as */

enum {
	RENDEZVOUS_ID_LEN = 64, /* hex digits: 32 of the hub's id, 32 random ones */
	RENDEZVOUS_LINE_MAX = 384,
	RENDEZVOUS_DELAY_MS = 5000, /* most */
};

enum rendezvous_word {
	RENDEZVOUS_MEET, /* node: meet <node> */
	RENDEZVOUS_COME, /* invited node: come <id> */
	RENDEZVOUS_GO, /* hub: go <own address> <other's address> <delay_ms> */
	RENDEZVOUS_NO, /* hub: no <reason> */
};

struct rendezvous_line {
	enum rendezvous_word word;
	char text[254]; /* node, id or reason */
	struct addr own, other;
	unsigned delay_ms;
};

/* How many bytes the line has, its line feed included; 0: more are needed; -EBADMSG: it is none. */
ssize_t rendezvous_line_read(const char *bytes, size_t n, struct rendezvous_line *to);
void rendezvous_line_write(const struct rendezvous_line *line, struct buf *out);
bool rendezvous_id_ok(const char *id);

#endif
