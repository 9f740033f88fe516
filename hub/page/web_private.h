/*
 * What the files of the page itself share (hub/page/web.h): web.c (listener, turns, counters),
 * web_conn.c (a connection: requests, files) and web_live.c (a viewer's websocket). Nothing outside
 * of these includes it.
 *
 *	SHAKES ─► HEAD ─┬─► REPLY ─┬─► HEAD ...
 *	                │          └─► LINGER: what still comes is passed over, so that the answer is not lost to a reset
 *	                └─► LIVE
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_PRIVATE_H
#define EDGEWAY_HUB_PAGE_WEB_PRIVATE_H

#include <sys/queue.h>

#include "base/http/wsframe.h"
#include "base/tls/transport.h"
#include "hub/page/web.h"
#include "hub/page/web_tell.h"
#include "hub/port/listen.h"

enum web_stage { WEB_SHAKES, WEB_HEAD, WEB_REPLY, WEB_LINGER, WEB_LIVE };

/* One who looks. */
struct viewer {
	struct wsframe *frames;
	struct buf line; /* of what he wants, until its end has come */
	struct want want;
	uint64_t top, view; /* hashes of what he was told last */
	size_t seen; /* events */
	bool due; /* for a turn */
	uint64_t told_ms; /* his last turn */
	size_t heard; /* bytes since then */
};

struct web_conn {
	TAILQ_ENTRY(web_conn) link;
	struct web *web;
	enum web_stage stage;
	struct tls_stream *tls; /* WEB_SHAKES */
	struct transport *wire;
	struct timer *timer; /* the end of patience */
	struct caller caller;
	struct buf in, out;
	bool close; /* behind the answer */
	uint64_t pinged_ms;
	struct viewer *viewer; /* WEB_LIVE */
};

TAILQ_HEAD(web_conns, web_conn);

struct web {
	struct web_config config;
	struct listen *listen;
	struct ssl_ctx_st *tls; /* NULL: plain */
	bool proven; /* by certificate */
	struct web_conns conns;
	size_t n_conns, n_viewers;
	struct survey *survey; /* NULL: nobody looks */
	struct probes *probes;
	struct dead *dead;
	struct timer *tick; /* until the next survey; while somebody looks */
	struct timer *turn; /* until the turn of the next viewer who is due */
	uint64_t started_ms; /* since 1970 */
	bool leaving;
	uint64_t requests, bytes;
	uint64_t refused_who, refused_how, refused_full, viewers, skipped, dropped;
};

/* --- web_conn.c ----------------------------------------------------------------------------- */
void web_conn_take(struct web *w, int fd, const struct caller *caller);
void web_conn_free(struct web_conn *c);
/* Sends what waits; false: the connection is gone. */
bool web_conn_flush(struct web_conn *c);

/* --- web_live.c ----------------------------------------------------------------------------- */
/* The handshake is answered: the connection belongs to a viewer. */
void web_live_start(struct web_conn *c);
void web_live_stop(struct web_conn *c);
/* Bytes have come in c->in. False: the connection is gone. */
bool web_live_read(struct web_conn *c);
/* Tells what is new; false: the connection is gone. */
bool web_live_turn(struct web_conn *c, const struct tell *tell);
/* With a close frame, unless one with another code was made before. why: he is dropped; NULL: all
 * is well. False: the connection is gone. */
bool web_live_close(struct web_conn *c, enum wsframe_code code, const char *why);

/* --- web.c ---------------------------------------------------------------------------------- */
/* Says why, and counts. */
void web_drop(const struct web_conn *c, const char *why);
/* A viewer has come or gone. */
void web_viewers_changed(struct web *w);
/* He wants something else than before: he does not wait for the next second. */
void web_hurry(struct web_conn *c);

#endif
