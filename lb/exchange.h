/*
 * One HTTP request and its answer: the upstream half of the proxy.
 *
 *	start ──► dialling ──► sending ───────────────────────► finished: the upstream connection
 *goes to the pool, │          ▲  │      (request body up, answer down,      the client's to its
 *next request │          │  │       both at once) │          │  │        │      │ │          │  │
 *│      ├─ 1xx: relayed, goes on │          │  │        │      ├─ 101: relay.c takes over │ │  │ │
 *├─ answer before the body's end: delivered, then both connections close │          │  │        │
 *└─ lost in the middle of an answer: client's connection is reset, never │          │  │        │
 *ended as if it were whole │          └──┼─ retry ┘ lost before any byte of an answer, and nothing
 *can have been executed or │             │          the method is idempotent; no byte of a body was
 *sent └─ 503        └─ 502, 504
 *
 * The request's head is kept until the answer begins. Bodies are not: they are streamed with at
 *most memory_allowance() waiting in each direction; beyond that the sender is not read.
 */
#ifndef EDGEWAY_LB_EXCHANGE_H
#define EDGEWAY_LB_EXCHANGE_H

#include "lb/private.h"

/* For relay.c too: an exchange of f with nothing in it; f->ex is set. */
struct exchange *exchange_new(struct front *f);
/* Takes it off its front and frees it later; closes its back if that is still there. */
void exchange_end(struct exchange *ex);

/* A request's head has been read into worker->head. `more`: bytes of its body follow at once. */
void exchange_start(struct front *f, bool more);
/* Body bytes of the request; returns how many were taken, 0 when none can be now. */
size_t exchange_body(struct exchange *ex, const char *data, size_t len);
/* Something moved: sets the deadline of the client's connection anew. */
void exchange_touch(struct exchange *ex);
/* The front's deadline, to the tick, instead of one of the common spans. */
void exchange_due(struct exchange *ex, uint64_t due_ms);
/* The front's expiry has come, but the deadline has not: it goes on. */
bool exchange_not_due(struct exchange *ex);
/* The client's deadline has passed. */
void exchange_timeout(struct exchange *ex);
/* May the request be sent again, should ex->back be lost now? */
/* Is another endpoint to be asked instead, since the answer has this status (edgeway.io/retry-on)?
 * It is safe then, and nothing of the answer has gone to the client. */
bool exchange_may_ask_another(const struct exchange *ex, unsigned status);
void exchange_ask_another(struct exchange *ex);
bool exchange_may_retry(const struct exchange *ex);
/* The way to its endpoint is another one now: sends the request again, if it may be sent twice. It
 * has a connection that is not connecting. */
void exchange_ask_again(struct exchange *ex);
/* The client is gone. */
void exchange_abort(struct exchange *ex);
/* The client has read what was pending. */
void exchange_client_drained(struct exchange *ex);

void exchange_connected(struct exchange *ex);
void exchange_dial_failed(struct exchange *ex);
void exchange_on_back(struct back *b, unsigned events);

#endif
