/*
 * Looks at the first bytes of accepted connections without taking them (MSG_PEEK), and says by the
 * ALPN in the ClientHello to whom each belongs. Nothing is kept of a connection but its descriptor;
 * who says nothing, or not enough, is dropped after PEEK_MS, or when others need its place
 * (base/core/preauth). Who has said it has PEEK_MS more to get its turn. On the hub's loop.
 *
 *	peek = peek_new(loop, preauth, on_known, nodes);
 *	peek_take(peek, fd, NULL);	// on_known(nodes, fd, HELLO_OTHER, NULL) comes, or fd is closed
 */
#ifndef EDGEWAY_HUB_PORT_PEEK_H
#define EDGEWAY_HUB_PORT_PEEK_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "base/core/preauth.h"
#include "hub/port/hello.h"

enum { PEEK_MS = 10000 };

struct peek;
/* Takes the descriptor over. `from`: as for peek_take, for the call. */
typedef void peek_fn(void *arg, int fd, enum hello kind, const char *from);

/* preauth: outlives it; NULL: any number may wait. */
struct peek *peek_new(struct loop *loop, struct preauth *preauth, peek_fn *fn, void *arg);
/* Those that wait are closed. */
void peek_free(struct peek **p);
/* fd: accepted, taken. from: NULL, or where it comes from when it came inside of a websocket: then
 * it cannot be one itself. The callback may come from within. */
void peek_take(struct peek *p, int fd, const char *from);
void peek_metrics(const struct peek *p, struct metrics *m);

#endif
