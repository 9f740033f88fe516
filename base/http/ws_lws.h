/*
 * Internal to base/http/ws: the structures that ws.c (contexts, dialling, time) and ws_events.c
 * (callbacks of libwebsockets, queue of frames) share. Nobody else includes this or
 * libwebsockets.h.
 *
 * Life of a connection: ws_adopt or ws_dial makes it; then libwebsockets' object points to it
 * (opaque user data). The owner's `closed` is called as soon as the end is known; the memory is
 * freed when libwebsockets frees its object, which libuv delays to a later turn of the loop.
 */
#ifndef EDGEWAY_BASE_HTTP_WS_LWS_H
#define EDGEWAY_BASE_HTTP_WS_LWS_H

#include <libwebsockets.h>

#include "base/core/buf.h"
#include "base/core/preauth.h"
#include "base/http/ws.h"
#include "base/tls/pki.h"

enum {
	WS_FRAGMENT = 16 * 1024 - 16, /* payload of one websocket frame: fills one TLS record */
	WS_RECEIVE = 4096, /* libwebsockets keeps a buffer of this size per connection */
	WS_WHY_MAX = 320,
	WS_FDS_SEEN = 1024,
	WS_FDS_OWN = 8,
	WS_OPTIONS = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS |
		LWS_SERVER_OPTION_VALIDATE_UTF8,
	WS_REASON_MAX = 124, /* RFC 6455 section 5.5: 125 bytes with the code, and NUL */
};

enum ws_state {
	WS_STARTING, /* TCP, TLS, upgrade */
	WS_OPEN,
	WS_CLOSING, /* ws_close was called */
	WS_ENDED, /* the owner was told, or never knew of it */
};

struct ws_frame {
	struct ws_frame *next;
	size_t len;
	unsigned char data[]; /* LWS_PRE bytes for libwebsockets, then the text */
};

struct ws_field {
	struct ws_field *next;
	char *value;
	char name[];
};

struct ws_conn {
	struct ws_conn *next, **link;
	/* of its own, since a walk over all would cost an idle hub a quarter of its CPU */
	struct timer *tick;
	uint64_t look_ms; /* when that is due */
	struct ws *ws;
	struct lws *wsi; /* NULL before and after */
	struct lws_vhost *vhost; /* client: its own, for its TLS context */
	void *arg;
	enum ws_state state;
	bool server, accepted, verified;
	/* dialing: inside the call that starts it; released: libwebsockets has freed its object */
	bool dialing, released;
	/* over: high_water was exceeded, so `drained` must follow */
	bool close_sent, ping_due, over;
	uint64_t since_ms; /* time of its start, or of ws_close while closing */
	uint64_t pinged_ms, heard_ms, beat_ms;
	struct liveness_line line; /* without a peer: its life is its own */
	bool keeps, proxied;
	bool resumed; /* server: its TLS session was */
	uint64_t asked_ms; /* since when its program owes an answer; 0: it owes none */
	struct ws_frame *first, **last;
	size_t sent, queued; /* of first; of all */
	struct buf received;
	unsigned close_code;
	char close_reason[WS_REASON_MAX];
	char why[WS_WHY_MAX];
	char peer_addr[ADDR_TEXT_MAX];
	char *peer_name, *path, *host;
	char peer_serial[PKI_SERIAL_TEXT];
	int64_t peer_expires_s;
	uint64_t wait_ms; /* see ws_ask_to_wait and ws_asked_to_wait_ms */
	char *request; /* client: header lines for the upgrade */
	struct ws_field *fields;
	struct preauth_conn place; /* server: until the upgrade */
	struct ws_way *way; /* through a proxy, until libwebsockets is connected to it; else NULL */
};

struct ws_old_vhost {
	struct ws_old_vhost *next;
	struct lws_vhost *vhost;
};

struct ws {
	struct loop *loop;
	struct ws_config config;
	struct lws_context *context;
	struct lws_vhost *server;
	struct ssl_ctx_st *server_ctx; /* libwebsockets' own, a copy of config.server_tls */
	struct timer *reap;
	struct ws_conn *conns;
	struct ws_pipe *pipes; /* ws_proxy.c's */
	struct ws_old_vhost *old; /* destroyed on the next turn */
	int fds[WS_FDS_OWN]; /* descriptors that libwebsockets opened for itself */
	size_t fd_count;
	bool freeing, adopted; /* adopted: libwebsockets made an object in ws_adopt */
};

/* Creation parameters common to contexts and vhosts. */
struct lws_context_creation_info ws_common_info(struct ws *ws);
extern const lws_retry_bo_t ws_no_pings;
/* The callback of all protocols. */
int ws_on_lws(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len);
/* The upgrade from HTTP to websocket (ws_upgrade.c); nonzero ends the connection. */
int ws_on_upgrade(struct ws_conn *c, struct lws *wsi);
int ws_add_request_headers(struct ws_conn *c, void *in, size_t room);
int ws_on_open(struct ws_conn *c);
void ws_on_dial_failed(struct ws_conn *c, struct lws *wsi, const char *in, size_t len);
/* retry_after_s: 0: none. */
void ws_answer(struct lws *wsi, int status, const char *words, unsigned retry_after_s);
/* The peer's program has sent something. */
void ws_heard(struct ws_conn *c);
/* The connection has begun, is to end, or owes an answer: its ticks may be far apart until then. */
void ws_tick_soon(struct ws_conn *c);
/* The timer's callback. */
void ws_on_tick(void *conn);
/* Tells the owner, once; the first `why` wins. */
void ws_end(struct ws_conn *c, const char *why);
/* Keeps the first reason. */
void ws_set_why(struct ws_conn *c, const char *fmt, ...) printf_like(2, 3);
/* Removes it from the list and frees it. */
void ws_conn_free(struct ws_conn *c);
/* Destroys the client's vhost on the next turn of the loop. */
void ws_retire_vhost(struct ws *ws, struct lws_vhost *vhost);

/* Makes libwebsockets connect; address: numeric, or "+@name" of an abstract Unix socket. NULL: it
 * failed to start. */
struct lws *ws_connect(struct ws_conn *c, const char *address, uint16_t port, const char *path);

/* Dialling through a proxy (ws_proxy.c): c->way exists until libwebsockets' end is joined to it. */
int ws_way_start(struct ws_conn *c, const struct ws_dial *dial, struct err *err);
void ws_way_free(struct ws_way **way);
/* Calls `closed` and frees the connection, which has no libwebsockets object. */
void ws_way_fail(struct ws_conn *c, const char *why);
void ws_free_pipes(struct ws *ws);

/* preauth's callback: drop this connection in favour of another. */
void ws_on_dropped(void *c);
/* The timer's callback. */
void ws_reap_vhosts(void *arg);
/* Which descriptors did libwebsockets open? See ws_free.c. */
void ws_mark_fds(bool open[WS_FDS_SEEN]);
void ws_note_fds(struct ws *ws, const bool before[WS_FDS_SEEN]);

#endif
