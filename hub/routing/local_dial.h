/*
 * The hub's own dials, as streams: two sessions connected by a pair of sockets, so that the hub's
 * own dials behave like those of a node (deadline, 502 and 504, half-close, reset). Addresses that
 * are never dialled (tunnel_acl_never) are refused with 403, whoever asks, and so are those of the
 * hub itself (hub/port/self_guard.h). While the streams hold too much memory, callers with more
 * than an eighth of it are refused new ones (STREAM_REFUSED). On the loop's thread.
 */
#ifndef EDGEWAY_HUB_ROUTING_LOCAL_DIAL_H
#define EDGEWAY_HUB_ROUTING_LOCAL_DIAL_H

#include "hub/port/self_guard.h"
#include "tunnel/tunnel.h"

struct local_dial;

/* guard: outlives it. */
struct local_dial *local_dial_new(struct loop *loop, struct self_guard *guard);
void local_dial_free(struct local_dial **c);
/* SO_MARK of dials from now on; 0: none, the default. Needs CAP_NET_ADMIN. */
void local_dial_mark(struct local_dial *c, uint32_t mark);
/* caller: by caller_name, who answers for the memory. request->authority: IP:port, [IPv6]:port;
 * fields: one less than STREAM_FIELDS_MAX. As session_open. */
int local_dial_open(struct local_dial *c, const char *caller, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out);

#endif
