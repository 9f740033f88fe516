/*
 * The hub's one port: accepts connections and passes each socket on with no byte read. The receiver
 * decides by the first bytes what the connection is (hub/port/alpn_mux).
 *
 * Bounded: a loop turn accepts at most LISTEN_BATCH connections, so that a flood of new nodes does
 * not starve the connected ones; while the owner has no room (listen_room), new connections wait in
 * the kernel's queue; when descriptors run out, accepting pauses for a second, with a log line. On
 * the hub's loop.
 *
 *	listen_start(&l, loop, &addr, on_socket, hub, &err);
 */
#ifndef EDGEWAY_HUB_PORT_LISTEN_H
#define EDGEWAY_HUB_PORT_LISTEN_H

#include "base/core/loop.h"
#include "base/core/sock.h"

enum { LISTEN_BATCH = 4, LISTEN_REST_MS = 1000 };

struct listen;
/* Takes the descriptor over. False: not taken; it is closed here. */
typedef bool listen_fn(void *arg, int fd);

int listen_start(struct listen **l, struct loop *loop, const struct addr *addr, listen_fn *fn,
	void *arg, struct err *err);
/* The same with a socket that listens already, opened with SOCK_TRANSPARENT; takes it over. */
struct listen *listen_take(struct loop *loop, int fd, listen_fn *fn, void *arg);
void listen_stop(struct listen **l);

/* The bound address, for port 0 in tests. */
struct addr listen_addr(const struct listen *l);
/* true: accept; false: leave new connections in the kernel's queue. */
void listen_room(struct listen *l, bool room);

uint64_t listen_failed(const struct listen *l);

#endif
