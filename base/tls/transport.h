/*
 * An abstract byte stream between two ends: TLS in production, a socket pair or memory in tests,
 * plain TCP where something else secures it. An implementation embeds struct transport, fills
 * `ops`, and calls `on` when reading or writing may succeed; the owner sets `on` and `arg` and
 * frees the transport. All on one loop. The transport may be freed within `on`.
 *
 *	struct transport *w = transport_tls(&stream);	// an open stream; taken
 */
#ifndef EDGEWAY_BASE_TLS_TRANSPORT_H
#define EDGEWAY_BASE_TLS_TRANSPORT_H

#include "base/tls/tls_stream.h"

enum { TRANSPORT_READ_BYTES = TLS_RECORD_BYTES }; /* a good size to read */

struct transport;

typedef void transport_fn(void *arg);

struct transport_ops {
	/* > 0; 0 at the end; -EAGAIN or another -errno. Until -EAGAIN, buffered bytes may wait
	 * without an event. */
	ssize_t (*read)(struct transport *w, void *to, size_t size);
	/* > 0, possibly less than n: the next call must begin with exactly the remaining bytes;
	 * -EAGAIN or another -errno. */
	ssize_t (*write)(struct transport *w, const void *data, size_t n);
	/* gather and send replace `write`: both are set or neither. gather batches at most
	 * TLS_RECORD_BYTES: n; -EAGAIN: nothing taken; or another -errno. send sends the batch: 0,
	 * -EAGAIN (the next call sends the rest) or another -errno. */
	ssize_t (*gather)(struct transport *w, const void *data, size_t n);
	int (*send)(struct transport *w);
	/* Calls `on` when a write may succeed, until called with false. */
	void (*want)(struct transport *w, bool writable);
	/* While held, no event for readable data: unless a write is wanted, `on` tells only that
	 * the connection broke, in each turn until the transport is freed. NULL: not supported. */
	void (*hold)(struct transport *w, bool held);
	/* The socket, for queries about the connection (sock_drains, sock_rerouted). NULL: there is
	 * none. */
	int (*fd)(struct transport *w);
	void (*free)(struct transport *w);
};

struct transport {
	const struct transport_ops *ops;
	transport_fn *on;
	void *arg;
};

struct transport *transport_tls(struct tls_stream **stream);
/* Takes over a connected stream socket: for two ends on one machine, or where the carried protocol
 * authenticates itself. */
struct transport *transport_socket(struct loop *loop, int fd);
/* Frees it, and gives the socket back. */
int transport_socket_release(struct transport **w);

#endif
