/*
 * The hub's one port: accepts connections and hands each socket over, still without a byte read.
 * Whoever takes it decides by its first bytes what it is (hub/port/alpn_mux).
 *
 * Bounded: a turn of the loop accepts LISTEN_BATCH at most, so that a flood of new nodes does not
 * starve those that are connected; while the owner has no room (listen_room) new ones wait in the
 * kernel's queue; without descriptors accepting rests for a second, said aloud. On the hub's loop.
 *
 *	listen_start(&l, loop, &addr, on_socket, hub, &err);
 */
#ifndef EDGEWAY_HUB_PORT_LISTEN_H
#define EDGEWAY_HUB_PORT_LISTEN_H

#include "base/core/loop.h"
#include "base/core/sock.h"

enum { LISTEN_BATCH = 4, LISTEN_REST_MS = 1000 };

struct listen;
/* Takes the descriptor over. False: not taken, it is closed here. */
typedef bool listen_fn(void *arg, int fd);

int listen_start(struct listen **l, struct loop *loop, const struct addr *addr, listen_fn *fn,
	void *arg, struct err *err);
void listen_stop(struct listen **l);

/* Where it listens, for port 0 in tests. */
struct addr listen_addr(const struct listen *l);
/* Go on accepting, or leave new connections to the kernel's queue. */
void listen_room(struct listen *l, bool room);

uint64_t listen_accepted(const struct listen *l);
uint64_t listen_failed(const struct listen *l);

#endif
