/*
 * What carries a session's bytes: a TLS connection in earnest, a pair of sockets or memory in tests, websocket
 * frames for sites that let nothing else through. A carrier embeds struct wire, fills `ops`, and says by `on` that
 * reading or writing may succeed now; who holds the wire (the session) sets `on` and `arg` and frees it.
 * All of it on one loop. Within `on` the wire may be freed.
 *
 *	struct wire *w = wire_tls(&stream);	// an open stream; taken
 */
#ifndef EDGEWAY_TUNNEL_WIRE_H
#define EDGEWAY_TUNNEL_WIRE_H

#include "base/tls_stream.h"

/* ALPN of cloud to edge: the node has dialled, the hub is the client of HTTP/2. */
#define TUNNEL_ALPN_REVERSE "edgeway-tunnel-reverse/1"
/* ALPN of edge to cloud: the node has dialled and is the client of HTTP/2. */
#define TUNNEL_ALPN_FORWARD "edgeway-tunnel/1"

enum {
	WIRE_READ_BYTES = TLS_RECORD_BYTES, /* a good size to read */
	WIRE_FRAME_HEAD = 9, /* RFC 9113 section 4.1 */
	WIRE_PAYLOAD_BYTES =
		TLS_RECORD_BYTES - WIRE_FRAME_HEAD, /* a frame and its head fill one record */
};

struct wire;

typedef void wire_fn(void *arg);

struct wire_ops {
	/* > 0; 0 at the end; -EAGAIN or another -errno. Bytes may wait in the wire unannounced until -EAGAIN. */
	ssize_t (*read)(struct wire *w, void *to, size_t size);
	/* > 0, perhaps less than n; -EAGAIN or another -errno. */
	ssize_t (*write)(struct wire *w, const void *data, size_t n);
	/* Tell when a write may succeed, until asked no more. */
	void (*want)(struct wire *w, bool writable);
	void (*free)(struct wire *w);
};

struct wire {
	const struct wire_ops *ops;
	wire_fn *on;
	void *arg;
};

struct wire *wire_tls(struct tls_stream **stream);
/* A connected stream socket, taken: between two ends of one machine, where nothing must be proven. */
struct wire *wire_socket(struct loop *loop, int fd);

#endif
