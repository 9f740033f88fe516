/*
 * Relays bytes in both directions between a client and an upstream: TCP ports, TLS and HTTP/2 on
 * http ports, and connections that switched protocols (101). At most memory_allowance() is buffered
 * in each direction. A FIN from one side is forwarded while the other direction continues; a reset
 * is forwarded as a reset, and so is an end of the endpoint's TLS without close_notify, once the
 * client has got all that came. If both sides are silent for the service's idle timeout or
 * SPAN_TUNNEL, the relay is closed.
 */
#ifndef EDGEWAY_LB_PROXY_RELAY_H
#define EDGEWAY_LB_PROXY_RELAY_H

#include "lb/proxy/worker.h"

/* Finds an endpoint; what the client has sent waits in f->base.in. Without an endpoint the client
 * is reset. */
void relay_open(struct downstream *f);
/* Returns whether this connection was forwarded as often as allowed. If so, that is logged, and the
 * caller must end it. */
bool relay_goes_round(struct exchange *ex);
/* Its client may not call the service any more. */
void relay_cut(struct downstream *f);
/* The endpoint has switched protocols: `data` is what it sent after its response head. */
void relay_upgraded(struct exchange *ex, const char *data, size_t len);
/* The endpoint has spoken first: `data` is its greeting. */
void relay_greeted(struct exchange *ex, const char *data, size_t len);
extern const struct exchange_kind relay_kind;
/* Bytes may have arrived in f->base.in. */
void relay_on_input(struct downstream *f);
void relay_on_downstream(struct downstream *f, unsigned events);
void relay_on_upstream(struct upstream_conn *b, unsigned events);
/* The expiry of b, which is connected. */
void relay_on_time(struct upstream_conn *b);

#endif
