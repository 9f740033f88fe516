/*
 * DNS over TCP (RFC 7766): accepts, cuts the stream into messages, sends answers in any order. One
 * per worker, used on its loop only. Bounded, so that nobody can hold the port: TCP_CLIENT_MAX
 * connections of one address and TCP_CONNS_MAX in all (the idlest of the one who has most makes
 * room), TCP_IDLE_MS without a whole query, TCP_OPEN_MAX queries unanswered, TCP_OUT_MAX bytes
 * unread by the client. A message shorter than a header is the last: those before it are answered,
 * then the connection ends.
 *
 *	tcp_open(&t, loop, take_fd(&fd), &handler);
 *	on_query: ... tcp_reply(conn, out, len);	// or tcp_ref(conn), and later tcp_reply +
 *							// tcp_unref
 *	tcp_close(&t);	// replies to its connections go nowhere from now on
 */
#ifndef EDGEWAY_DNS_FRONT_TCP_H
#define EDGEWAY_DNS_FRONT_TCP_H

#include <netinet/in.h>

#include "base/core/loop.h"

enum {
	TCP_CONNS_MAX = 128,
	TCP_CLIENT_MAX = 32,
	TCP_OPEN_MAX = 64,
	TCP_IDLE_MS = 10000,
	TCP_OUT_MAX = 256 * 1024,
};

struct tcp;
struct tcp_conn;

/* A message, borrowed for the call. */
typedef void tcp_query_fn(void *arg, struct tcp_conn *c, const uint8_t *m, size_t len);
/* May it come in? It is reset if not. */
typedef bool tcp_admit_fn(void *arg, int fd);

struct tcp_handler {
	tcp_query_fn *query;
	tcp_admit_fn *admit; /* NULL: all */
	void *arg;
};

void tcp_open(struct tcp **t, struct loop *loop, int fd, const struct tcp_handler *handler);
/* Accepts no more; the connections that there are go on. */
void tcp_quiet(struct tcp *t);
void tcp_close(struct tcp **t);
/* IPv4 address of the client, host byte order; 0 when it has left. */
uint32_t tcp_peer(const struct tcp_conn *c);
/* The one who keeps a connection for a later reply holds a reference, which also counts as an open
 * query. */
void tcp_ref(struct tcp_conn *c);
void tcp_unref(struct tcp_conn **c);
/* Address, as it is in packets. */
in_addr_t tcp_client(const struct tcp_conn *c);
void tcp_reply(struct tcp_conn *c, const uint8_t *m, size_t len);

#endif
