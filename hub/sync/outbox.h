/*
 * Frames to be sent to one node: a node that accepts bundles (model/bundle.h) gets the frames of
 * one moment in one, if that is worth it; other nodes get each frame at once. Part of
 * hub/sync/node_session.
 *
 *	memcpy(outbox_begin(&o, len), frame, len);
 *	outbox_end(&o, len);
 *	outbox_send(&o);	// nothing more for now
 */
#ifndef EDGEWAY_HUB_SYNC_OUTBOX_H
#define EDGEWAY_HUB_SYNC_OUTBOX_H

#include "base/http/ws.h"
#include "hub/sync/fanout.h"

struct outbox {
	struct ws_conn *conn;
	bool bundles; /* the node accepts them */
	struct buf lines; /* each ended by a line feed */
	size_t n_lines;
};

void outbox_init(struct outbox *o, struct ws_conn *conn, bool bundles);
void outbox_fini(struct outbox *o);
/* Room for a frame of `len` bytes, valid until outbox_end. */
char *outbox_begin(struct outbox *o, size_t len);
void outbox_end(struct outbox *o, size_t len);
void outbox_send(struct outbox *o);
/* Sends a large item, the same for all nodes, alone: its bundle is built once for all of them.
 * False: not possible, use outbox_begin and outbox_end. */
bool outbox_item(struct outbox *o, struct fanout *f, const struct fanout_item *item,
	const char id[FANOUT_ID_LEN + 1]);

#endif
