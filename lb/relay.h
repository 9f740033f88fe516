/*
 * Bytes both ways between a client and an upstream: TCP ports, TLS and HTTP/2 on http ports, and
 * connections that switched protocols (101). At most memory_allowance() wait in each direction. One
 * side's FIN is handed on while the other direction goes on; a reset is handed on as a reset. Both
 * sides silent for the service's idle timeout or SPAN_TUNNEL: closed.
 */
#ifndef EDGEWAY_LB_RELAY_H
#define EDGEWAY_LB_RELAY_H

#include "lb/private.h"

/* Looks for an endpoint; what the client has sent waits in f->grave.in. No endpoint: the client is
 * reset. */
void relay_open(struct front *f);
/* Have we passed this client's connection on as often as it may be? Then it was told, and is to
 * end. */
bool relay_goes_round(struct exchange *ex);
/* Its client may not call the service any more. */
void relay_cut(struct front *f);
/* The endpoint has agreed to another protocol: `data` is what it sent behind its answer. */
void relay_upgraded(struct exchange *ex, const char *data, size_t len);
/* The endpoint has spoken first: `data` is its greeting. */
void relay_greeted(struct exchange *ex, const char *data, size_t len);
void relay_connected(struct exchange *ex);
void relay_dial_failed(struct exchange *ex);
/* Bytes may have come into f->grave.in. */
void relay_on_input(struct front *f);
void relay_on_front(struct front *f, unsigned events);
void relay_on_back(struct back *b, unsigned events);

#endif
