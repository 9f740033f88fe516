/*
 * The server side of HTTP/1.1 connections, for the administrative server (base/http/admin.h) and
 * the hub's page (hub/page/web.h): reads requests within limits and writes responses within
 * timeouts, with or without TLS. The owner accepts connections, limits their number, and decides by
 * hooks who is answered and how. All on one loop.
 *
 *	HANDSHAKE ─► HEAD ─┬─► BODY ─► REPLY ─┬─► HEAD ...
 *	                   │                  └─► LINGER: discards input, so no reset loses
 *	                   │                      the response
 *	                   └─► UPGRADED: the owner speaks another protocol
 *
 * The owner embeds struct http_server and fills it up to `conns`; it allocates each connection with
 * struct http_conn embedded, and the connection frees itself at its end. To upgrade, `head` appends
 * its answer to `out` and sets `stage`; from then on the owner sets the timer.
 *
 *	http_conn_start(&my_conn->http, &server, fd, &peer);
 */
#ifndef EDGEWAY_BASE_HTTP_HTTP_SERVER_H
#define EDGEWAY_BASE_HTTP_HTTP_SERVER_H

#include <sys/queue.h>

#include "base/core/sock.h"
#include "base/http/http1.h"
#include "base/tls/transport.h"

enum { HTTP_SERVER_HEAD_MAX = 8 * 1024 };

struct http_conn;

struct http_server_ops {
	/* A head, valid for this call: answers, refuses or upgrades; if it does not, the body is
	 * read, and `request` called. */
	void (*head)(struct http_conn *c, const struct http1_head *h);
	/* The request is complete: answers or refuses. False: the connection is gone. */
	bool (*request)(struct http_conn *c);
	/* Appends more of a response of unknown length to c->out, which has been sent; NULL, or
	 * nothing appended: that was all. */
	void (*more)(struct http_conn *c);
	/* Refuses a request that cannot be read, or is too large. */
	void (*refuse)(struct http_conn *c, unsigned status, const char *why);
	/* Reads c->in. False: the connection is gone. */
	bool (*upgraded)(struct http_conn *c);
	/* The time of an upgraded connection is up; it is freed after the call. */
	void (*late)(struct http_conn *c);
	/* The TLS handshake is over; why: it failed, and the connection is freed after the call. */
	void (*handshake)(struct http_conn *c, const char *why);
	/* Frees what embeds the connection. */
	void (*free)(struct http_conn *c);
};

struct http_server {
	const struct http_server_ops *ops;
	struct loop *loop;
	struct ssl_ctx_st *tls; /* borrowed; NULL: no TLS */
	bool proven; /* clients prove who they are by certificate */
	bool keep_alive; /* false: one request per connection */
	size_t body_max; /* 0: `head` refuses every request with a body */
	unsigned head_ms; /* for a whole request, TLS handshake included, and between two */
	unsigned stall_ms; /* longest time in which a client takes nothing of a response */
	unsigned reply_ms; /* for the whole response; 0: no limit */
	TAILQ_HEAD(, http_conn) conns; /* the oldest first; initialised by the owner */
	unsigned n_conns;
};

enum http_stage { HTTP_HANDSHAKE, HTTP_HEAD, HTTP_BODY, HTTP_REPLY, HTTP_LINGER, HTTP_UPGRADED };

struct http_conn {
	TAILQ_ENTRY(http_conn) link;
	struct http_server *server;
	enum http_stage stage;
	int fd; /* borrowed from the transport; -1: TLS */
	struct in6_addr peer; /* all zero for a Unix socket; of IPv6 the /64 */
	struct tls_stream *tls; /* HTTP_HANDSHAKE */
	struct transport *wire;
	struct timer *timer; /* timeout of the stage */
	uint64_t end_ms; /* deadline of the stage, whatever arrives */
	bool close; /* close after the response */
	bool is_head; /* the response has no body */
	bool open; /* ops.more has the next part of the response */
	struct http1_body framing;
	struct buf in, body, out;
};

struct http_answer {
	unsigned status;
	const char *type; /* NULL: plain text in UTF-8 */
	const char *fields; /* complete header lines */
	const void *body;
	size_t len;
	bool open; /* `more` follows, and the end of the connection ends it */
};

/* Frees all connections. */
void http_server_fini(struct http_server *s);
/* The connection to close in favour of a new one: of the peer that has most, upgraded ones apart.
 * NULL: all are upgraded. */
struct http_conn *http_server_victim(const struct http_server *s);

/* Takes over an accepted socket, and reads what has arrived; c is zero, and may be gone after. */
void http_conn_start(struct http_conn *c, struct http_server *s, int fd, const struct addr *peer);
void http_conn_free(struct http_conn *c);
/* Frees the connection, which has no TLS, and returns its socket. */
int http_conn_release(struct http_conn *c);
void http_conn_answer(struct http_conn *c, const struct http_answer *a);
/* Answers with a line of text, and closes. */
void http_conn_refuse(struct http_conn *c, unsigned status, const char *why, const char *fields);
/* Sends the rest of c->out, and closes. False: the connection is gone. */
bool http_conn_end(struct http_conn *c);
/* Sends c->out; false: the connection is gone. */
bool http_conn_flush(struct http_conn *c);

/* Appends the header section of a response. */
void http_answer_head(struct buf *out, const struct http_answer *a, bool close);

#endif
