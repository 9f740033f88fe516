/*
 * Websockets (RFC 6455) over TLS on a loop, libwebsockets behind it. Text frames only. One context
 * per loop serves both directions. All calls and callbacks on that loop.
 *
 * Server: the owner accepts and hands each socket over with ws_adopt. Client: ws_dial takes a
 * numeric address and the name to verify; nothing unverified is ever accepted. A side that has
 * received nothing for heartbeat_ms sends a ping, and closes a connection from which no byte came
 * for 2 * heartbeat_ms + 1 s. The pong also resets the other side's timer, so an idle connection
 * costs one ping and one pong per heartbeat.
 *
 * Events: open exactly once or closed directly (dial failed); closed is always the last callback.
 * The first argument is the `arg` of ws_config. The first callback of a server connection is
 * accept; a connection that ends before it, or is refused there, causes no other callback (ws logs
 * it, rate-limited). After ws_close no text callback comes.
 */
#ifndef EDGEWAY_BASE_HTTP_WS_H
#define EDGEWAY_BASE_HTTP_WS_H

#include "base/core/liveness.h"
#include "base/core/loop.h"
#include "base/core/sock.h"

struct ws; /* context */
struct ws_conn; /* one connection */
struct ws_tunnels;
struct preauth;
struct proxy;
struct ssl_ctx_st;

struct ws_events {
	/* Server: path and headers can be read with ws_path / ws_header. Return 0 to accept, else
	 * the HTTP status to refuse with. */
	int (*accept)(void *arg, struct ws_conn *c);
	void (*open)(void *arg, struct ws_conn *c);
	/* A whole text message; `text` is NUL-terminated and valid for the call only. */
	void (*text)(void *arg, struct ws_conn *c, const char *text, size_t len);
	/* The queue of ws_send has room again after it exceeded high_water. */
	void (*drained)(void *arg, struct ws_conn *c);
	/* `why` is a sentence for the log. The connection is gone after this call. */
	void (*closed)(void *arg, struct ws_conn *c, const char *why);
};

struct ws_config {
	const struct ws_events *events;
	void *arg;
	struct ssl_ctx_st *server_tls; /* SSL_CTX from base/tls/pki; NULL: no server side */
	uint64_t heartbeat_ms; /* 0: no pings and no timeout on silence */
	/* for TCP, TLS and upgrade, and for the closing handshake; 0: 10 s */
	uint64_t handshake_ms;
	struct preauth
		/* limits ws_adopt's connections until the upgrade; outlives ws; NULL: no limit */
		*preauth;
	size_t message_limit; /* bytes of one incoming message; more closes with 1009 */
	size_t high_water; /* queued bytes above which ws_send returns 1 */
};

int ws_new(struct ws **ws, struct loop *loop, const struct ws_config *config, struct err *err);
/* Closes every connection (closed callbacks come) and frees the context; turns the loop as
 * libwebsockets needs, so never call it from a callback of that loop. */
void ws_free(struct ws **ws);

/* Takes over an accepted TCP socket before its TLS handshake. ws owns the descriptor at once, even
 * when the result is -ECONNABORTED, or -EBUSY: no slot is free (base/core/preauth). from: what
 * ws_peer_addr returns; NULL: the socket's peer. */
int ws_adopt(struct ws *ws, int fd, const char *from);
/* New connections get this certificate; open ones are unchanged. 0 or -errno. */
int ws_renew(struct ws *ws, struct ssl_ctx_st *server_tls);

/* Part of the reason when a dial has no TCP connection: which of the two it is, is not known
 * here. */
#define WS_REFUSED_OR_UNREACHABLE "refused or unreachable"

struct ws_dial {
	struct addr addr;
	const char *host; /* name for the Host field, SNI and certificate check */
	const char *path;
	const char *const *headers; /* "name: value" lines ended by NULL */
	struct ssl_ctx_st
		*tls; /* client SSL_CTX from base/tls/pki; used until the connection is closed */
	void *arg; /* ws_arg of the new connection */
	/* NULL: no proxy. Else addr is the proxy's, and target, host:port, is the CONNECT
	 * target. */
	const struct proxy *proxy;
	const char *target;
	/* NULL: none. Else the whole connection, TLS included, goes inside a websocket that these
	 * dial, to target through addr. */
	struct ws_tunnels *carriers;
};
/* Starts to connect. The outcome comes as `open` or `closed`. NULL only when it cannot even
 * start. */
struct ws_conn *ws_dial(struct ws *ws, const struct ws_dial *dial, struct err *err);

/* Queues a text frame: 0, or 1 when the queue is over high_water (the frame is queued all the
 * same), or -ENOTCONN. */
int ws_send(struct ws_conn *c, const char *text, size_t len);
size_t ws_queued(const struct ws_conn *c);
/* Sends a close frame with the code and reason after what is queued, then `closed` comes. */
void ws_close(struct ws_conn *c, unsigned code, const char *reason);

/* Abandons a dial, or a close whose answer has not come: `closed` is called from within, so do not
 * call this from a callback of ws. Does nothing on an open connection. For a dial, the reason given
 * to `closed` says how far it got, and then `why`. */
void ws_give_up(struct ws_conn *c, const char *why);
/* Ends an open connection at once, for example when its peer is dead: `closed` is called from
 * within, so do not call this from a callback of ws. */
void ws_drop(struct ws_conn *c, const char *why);
/* Its socket; -1 when it has none now. */
int ws_fd(const struct ws_conn *c);
/* Sets heartbeat_ms of this connection only, > 0; only where the context's value is not 0. */
void ws_set_heartbeat(struct ws_conn *c, uint64_t ms);
/* From now on the connection lives as long as any connection of this peer does
 * (base/core/liveness.h), and pings where that asks for it instead of each heartbeat. keeps: this
 * end has the kernel probe. During accept or after open, only where heartbeat_ms is not 0. */
void ws_share_life(struct ws_conn *c, struct liveness *all, const char *peer, bool keeps);
/* Something is wrong with the peer: of a connection that shares its life, its program has a
 * heartbeat and a second to answer. */
void ws_ask(struct ws_conn *c);
/* Server, during accept: a refusal says Retry-After, so many seconds. */
void ws_ask_to_wait(struct ws_conn *c, unsigned seconds);
/* Client, in `closed`: the server asks to come again only after this, ms, by Retry-After or by an
 * alert in place of TLS; 0: it has not asked. */
uint64_t ws_asked_to_wait_ms(const struct ws_conn *c);
/* Server: the client's TLS session was resumed. */
bool ws_resumed(const struct ws_conn *c);
const char *ws_path(const struct ws_conn *c); /* server, "" else */
const char *ws_header(const struct ws_conn *c,
	const char *lowercase_name); /* server, during accept and open; "" absent */
const char *ws_peer_name(const struct ws_conn
		*c); /* name of the verified client certificate (pki_cert_info), "" when none */
const char *ws_peer_serial(
	const struct ws_conn *c); /* its serial number (pki_cert_serial), "" when none */
/* The certificate itself as PEM (heap), NULL when none; server, during accept and open. */
char *ws_peer_cert(const struct ws_conn *c);
/* When bytes last came from the peer, a pong for instance; loop's clock. */
uint64_t ws_heard_ms(const struct ws_conn *c);
/* the certificate's notAfter, seconds since 1970; 0 when none */
int64_t ws_peer_expires(const struct ws_conn *c);
const char *ws_peer_addr(const struct ws_conn *c); /* text */
/* Server: ws_adopt was told the peer's address, which is not that of the socket. */
bool ws_is_proxied(const struct ws_conn *c);
void *ws_arg(const struct ws_conn *c);
void ws_set_arg(struct ws_conn *c, void *arg);

#endif
