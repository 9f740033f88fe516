/*
 * The node's end of the hub's question what it reaches beside itself (doc/protocol.md,
 * "Neighbours"): tells tunnel.reach on a stream that the hub has opened for that, and takes what
 * the hub says to each entry, for the log and the state. Everything on the loop's thread.
 *
 *	declaration_use(d, &vicinity);	// and link_ask_anew, so that the hub asks
 *	return declaration_opened(d, st, request, reason);	// a stream with the field edgeway-ask
 */
#ifndef EDGEWAY_TUNNEL_NODE_DECLARATION_H
#define EDGEWAY_TUNNEL_NODE_DECLARATION_H

#include "base/core/metric.h"
#include "tunnel/h2/session.h"
#include "tunnel/node/vicinity.h"

#define DECLARATION_ASK "edgeway-ask" /* field of such a stream */
#define DECLARATION_REACH "reach" /* its value */
#define DECLARATION_AUTHORITY "edgeway-ask:1" /* no target: who knows nothing of it refuses */
#define DECLARATION_OK "ok" /* an answer's line; else the reason of a refusal */

enum { DECLARATION_MS = 5000, DECLARATION_ANSWER_MAX = VICINITY_MAX * STREAM_REASON_MAX };

struct declaration;

struct declaration *declaration_new(struct loop *loop);
void declaration_free(struct declaration **d);
/* Taken. What the hub has said of the former one is forgotten. */
void declaration_use(struct declaration *d, struct vicinity **vicinity);
const struct vicinity *declaration_vicinity(const struct declaration *d);
/* As `opened` of session_events. */
unsigned declaration_opened(struct declaration *d, struct stream *st,
	const struct stream_request *request, const char **reason);
void declaration_metrics(const struct declaration *d, struct metrics *m);
/* [{"entry","hub":"accepted"|"refused"|"has not answered","problem"}] */
void declaration_state(const struct declaration *d, struct buf *out);

#endif
