/*
 * What carries bytes between two ends: a TLS connection in earnest, a pair of sockets or memory in
 * tests, plain TCP where something else makes it safe. A wire embeds struct transport, fills `ops`,
 * and says by `on` that reading or writing may succeed now; who holds the wire sets `on` and `arg`
 * and frees it. All of it on one loop. Within `on` the wire may be freed.
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
	/* > 0; 0 at the end; -EAGAIN or another -errno. Bytes may wait in the wire unannounced
	 * until -EAGAIN. */
	ssize_t (*read)(struct transport *w, void *to, size_t size);
	/* > 0, perhaps less than n: the next call begins with the very bytes that were left;
	 * -EAGAIN or another -errno. */
	ssize_t (*write)(struct transport *w, const void *data, size_t n);
	/* Both or neither, in place of `write` then. At most TLS_RECORD_BYTES that go out with what
	 * follows them: n; -EAGAIN: none of them now; or another -errno. And: now they go, 0,
	 * -EAGAIN (what is left goes with the next call) or another -errno. */
	ssize_t (*gather)(struct transport *w, const void *data, size_t n);
	int (*send)(struct transport *w);
	/* Tell when a write may succeed, until asked no more. */
	void (*want)(struct transport *w, bool writable);
	/* While held, nothing is told of what may be read. NULL: it cannot be held. */
	void (*hold)(struct transport *w, bool held);
	/* The socket, to be asked how its line is (sock_drains, sock_rerouted). NULL: there is
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
/* A connected stream socket, taken: between two ends of one machine, or where what it carries
 * proves itself. */
struct transport *transport_socket(struct loop *loop, int fd);

#endif
