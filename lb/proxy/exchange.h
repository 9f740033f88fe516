/*
 * One HTTP request and its response: the upstream side of the proxy.
 *
 * States: doc/states/request.dot. The body goes up and the response comes down at the same time.
 *
 *	dialling ──► connected ──► sending ──► answering ──► ended
 *	dialling
 *	 └─ no endpoint: 503
 *	sending
 *	 ├─ 1xx: relayed, continues
 *	 ├─ 101: relay.c takes over
 *	 └─ lost before any byte of a response: dialling again, if nothing can have been executed or
 *	    the method is idempotent, and no byte of a body was sent; else 502, 504
 *	answering
 *	 ├─ before the end of the request's body: delivered, then both connections close
 *	 └─ lost: the client is reset, so that the response does not look complete
 *	ended: the upstream connection goes to the pool, the client's to its next request
 *
 * The request's head is kept until the response begins. Bodies are not kept: they are streamed,
 * with at most memory_allowance() buffered in each direction; beyond that the sender is not read.
 */
#ifndef EDGEWAY_LB_PROXY_EXCHANGE_H
#define EDGEWAY_LB_PROXY_EXCHANGE_H

#include "lb/proxy/worker.h"

/* Every change of its state. */
void exchange_go(struct exchange *ex, enum exchange_state to);
/* It gets endpoints of this group from now on. */
void exchange_use(struct exchange *ex, struct group *g);
/* How many attempts there were before this one. */
static inline unsigned
exchange_retries(const struct exchange *ex)
{
	return (unsigned)ex->n_tried + ex->n_stale + ex->n_past;
}
/* Makes an empty exchange of f; the owner sets f->ex, or ex->h2. */
struct exchange *exchange_new(struct downstream *f, const struct exchange_kind *kind);
/* Detaches it from its client, closes its upstream connection if any, and frees it later. */
void exchange_end(struct exchange *ex);

/* A request's head has been read into worker->head. `more`: bytes of its body follow at once. */
void exchange_start(struct downstream *f, bool more);
/* Body bytes of the request; returns how many were taken, 0 if none can be taken now. */
size_t exchange_body(struct exchange *ex, const char *data, size_t len);
/* What every request needs before an endpoint is looked for; ex->http is set. Returns false if it
 * was refused. */
bool exchange_admit(struct exchange *ex, struct http1_head *h);
/* There was progress: restarts the timeout of the client's connection. */
void exchange_touch(struct exchange *ex);
/* The request is whole: restarts the time for its response. Returns false if there is no limit. */
bool exchange_touch_waiting(struct exchange *ex);
/* The endpoint in use. */
struct target *exchange_target(const struct exchange *ex);
bool exchange_at_other(const struct exchange *ex);
/* Sets the client's deadline to a time (to the tick) instead of one of the common spans. */
void exchange_due(struct exchange *ex, uint64_t due_ms);
/* The client's expiry fired before the deadline: sets it again and returns true. */
bool exchange_not_due(struct exchange *ex);
/* The client's deadline has passed. */
void exchange_timeout(struct exchange *ex);
/* Should another endpoint be asked because the response has this status (a route's retry,
 * edgeway.io/retry-on)? Only
 * if that is safe and nothing of the response has gone to the client. */
bool exchange_may_ask_another(const struct exchange *ex, unsigned status);
void exchange_ask_another(struct exchange *ex);
/* Returns whether the request may be sent again if ex->upstream is lost now. */
bool exchange_may_retry(const struct exchange *ex);
/* The route to its endpoint has changed: sends the request again, if it may be sent twice. The
 * connection in ex->upstream must be established. */
void exchange_ask_again(struct exchange *ex);
/* The client has gone. */
void exchange_abort(struct exchange *ex);
/* The client has read what was buffered for it. */
void exchange_client_drained(struct exchange *ex);

/* No endpoint can be used: refuses the request with the reason. */
void exchange_dial_failed(struct exchange *ex);
/* The endpoint was lost, or did not answer in time. */
void exchange_refuse_lost(struct exchange *ex, bool silent);
void exchange_tell_silence(const struct exchange *ex, const struct target *t);
void exchange_on_upstream(struct upstream_conn *b, unsigned events);

#endif
