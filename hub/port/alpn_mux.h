/*
 * Demultiplexes accepted connections: peeks at their first bytes (MSG_PEEK) and tells by the ALPN
 * of the ClientHello what each connection is. It keeps nothing of a connection but its descriptor.
 * A connection whose ClientHello is missing or incomplete is dropped after ALPN_MUX_MS, or when
 * others need its place (base/core/preauth). Once the ClientHello is complete, a connection may
 * wait another ALPN_MUX_MS for its turn. On the hub's loop.
 *
 *	peek = alpn_mux_new(loop, preauth, on_known, nodes);
 *	alpn_mux_take(peek, fd, NULL);	// on_known(nodes, fd, CLIENT_HELLO_OTHER, NULL) comes, or fd is closed
 */
#ifndef EDGEWAY_HUB_PORT_ALPN_MUX_H
#define EDGEWAY_HUB_PORT_ALPN_MUX_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "base/core/preauth.h"
#include "hub/port/client_hello.h"

enum { ALPN_MUX_MS = 10000 };

struct alpn_mux;
/* Takes the descriptor over. `from`: as in alpn_mux_take, valid for this call. */
typedef void alpn_mux_fn(void *arg, int fd, enum client_hello kind, const char *from);

/* preauth: outlives it; NULL: no limit on waiting connections. */
struct alpn_mux *alpn_mux_new(
	struct loop *loop, struct preauth *preauth, alpn_mux_fn *fn, void *arg);
/* Closes the waiting connections. */
void alpn_mux_free(struct alpn_mux **p);
/* fd: accepted, taken. from: NULL, or the peer's address if the connection came inside a websocket:
 * then it cannot be a websocket itself. The callback may come from within this call. */
void alpn_mux_take(struct alpn_mux *p, int fd, const char *from);
void alpn_mux_metrics(const struct alpn_mux *p, struct metrics *m);

#endif
