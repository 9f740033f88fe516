/*
 * Announces the reachable networks of this node to the hub (doc/protocol.md, "Neighbours"): writes
 * tunnel.reach on a stream that the hub has opened for this query, and keeps the hub's verdict on
 * each entry for the log and the state. Everything on the loop's thread.
 *
 *	reachability_use(d, &vicinity);	// and tunnel_client_ask_anew, so that the hub asks
 *	return reachability_opened(d, st, request, reason);	// a stream with the field edgeway-ask
 */
#ifndef EDGEWAY_TUNNEL_NODE_REACHABILITY_H
#define EDGEWAY_TUNNEL_NODE_REACHABILITY_H

#include "base/core/metric.h"
#include "tunnel/h2/session.h"
#include "tunnel/node/reachable_nets.h"

#define REACHABILITY_ASK "edgeway-ask" /* field of the query's stream */
#define REACHABILITY_REACH "reach" /* its value */
/* not a target: a node that does not know this query refuses it */
#define REACHABILITY_AUTHORITY "edgeway-ask:1"
#define REACHABILITY_OK "ok" /* line of the hub's answer; else it is the reason of a refusal */

enum { REACHABILITY_MS = 5000, REACHABILITY_ANSWER_MAX = REACHABLE_NETS_MAX * STREAM_REASON_MAX };

struct reachability;

struct reachability *reachability_new(struct loop *loop);
void reachability_free(struct reachability **d);
/* Takes `vicinity`. The hub's answers about the previous one are dropped. */
void reachability_use(struct reachability *d, struct reachable_nets **vicinity);
const struct reachable_nets *reachability_vicinity(const struct reachability *d);
/* As `opened` of session_events. */
unsigned reachability_opened(struct reachability *d, struct stream *st,
	const struct stream_request *request, const char **reason);
void reachability_metrics(const struct reachability *d, struct metrics *m);
/* [{"entry","hub":"accepted"|"refused"|"has not answered","problem"}] */
void reachability_state(const struct reachability *d, struct buf *out);

#endif
