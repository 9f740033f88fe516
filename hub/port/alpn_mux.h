/*
 * Looks at the first bytes of accepted connections without taking them (MSG_PEEK), and says by the
 * ALPN in the ClientHello to whom each belongs. Nothing is kept of a connection but its descriptor;
 * who says nothing, or not enough, is dropped after ALPN_MUX_MS, or when others need its place
 * (base/core/preauth). Who has said it has ALPN_MUX_MS more to get its turn. On the hub's loop.
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
/* Takes the descriptor over. `from`: as for alpn_mux_take, for the call. */
typedef void alpn_mux_fn(void *arg, int fd, enum client_hello kind, const char *from);

/* preauth: outlives it; NULL: any number may wait. */
struct alpn_mux *alpn_mux_new(
	struct loop *loop, struct preauth *preauth, alpn_mux_fn *fn, void *arg);
/* Those that wait are closed. */
void alpn_mux_free(struct alpn_mux **p);
/* fd: accepted, taken. from: NULL, or where it comes from when it came inside of a websocket: then
 * it cannot be one itself. The callback may come from within. */
void alpn_mux_take(struct alpn_mux *p, int fd, const char *from);
void alpn_mux_metrics(const struct alpn_mux *p, struct metrics *m);

#endif
