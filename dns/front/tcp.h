/*
 * DNS over TCP (RFC 7766): accepts, splits the stream into messages, sends answers in any order.
 * One per worker, used on its loop only. Limits keep clients from exhausting it: TCP_CLIENT_MAX
 * connections per client (dns_client_key) and TCP_CONNS_MAX in all (the longest idle connection of
 * the client with the most is closed to make room), TCP_IDLE_MS without a whole query, TCP_OPEN_MAX
 * queries unanswered, TCP_OUT_MAX bytes unread by the client. After a message shorter than a header
 * no more are read: the queries before it are answered, then the connection ends.
 *
 *	tcp_open(&t, loop, take_fd(&fd), &handler);
 *	on_query: ... tcp_reply(conn, out, len);	// or tcp_ref(conn), and later tcp_reply +
 *							// tcp_unref
 *	tcp_close(&t);	// later replies to its connections are dropped
 */
#ifndef EDGEWAY_DNS_FRONT_TCP_H
#define EDGEWAY_DNS_FRONT_TCP_H

#include "base/core/loop.h"
#include "dns/forward/client.h"

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
/* Whether to accept the connection; it is reset if not. */
typedef bool tcp_admit_fn(void *arg, int fd);

struct tcp_handler {
	tcp_query_fn *query;
	tcp_admit_fn *admit; /* NULL: all */
	void *arg;
};

void tcp_open(struct tcp **t, struct loop *loop, int fd, const struct tcp_handler *handler);
/* Stops accepting; existing connections go on. */
void tcp_quiet(struct tcp *t);
void tcp_close(struct tcp **t);
/* Whoever keeps a connection for a later reply holds a reference, which also counts as an open
 * query. */
void tcp_ref(struct tcp_conn *c);
void tcp_unref(struct tcp_conn **c);
/* Also known after it has left. */
const struct dns_client *tcp_client(const struct tcp_conn *c);
void tcp_reply(struct tcp_conn *c, const uint8_t *m, size_t len);

#endif
