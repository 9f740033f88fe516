/*
 * State shared by the files of the page itself (hub/page/web.h): web.c (listener, loop turns,
 * counters), web_conn.c (what a connection's requests get, by base/http/http_server.h) and
 * web_live.c (a viewer's websocket). No other file includes it.
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_PRIVATE_H
#define EDGEWAY_HUB_PAGE_WEB_PRIVATE_H

#include "base/http/http_server.h"
#include "base/http/wsframe.h"
#include "hub/page/web.h"
#include "hub/page/web_tell.h"
#include "hub/port/listen.h"

/* One viewer. */
struct viewer {
	struct wsframe *frames;
	struct buf line; /* incomplete line with the wanted view */
	struct want want;
	uint64_t top, view; /* hashes of the data sent last */
	size_t seen; /* events sent */
	bool due; /* waits for a turn */
	uint64_t told_ms; /* its last turn */
	size_t heard; /* bytes since the last turn that was not skipped */
};

struct web_conn {
	struct http_conn http;
	struct web *web;
	struct caller caller;
	uint64_t pinged_ms;
	struct viewer *viewer; /* HTTP_UPGRADED */
};

struct web {
	struct web_config config;
	struct listen *listen;
	struct http_server server; /* owns its TLS context */
	size_t n_viewers;
	struct survey *survey; /* NULL: no viewers */
	struct probes *probes;
	struct dead *dead;
	struct timer *tick; /* until the next survey; while there are viewers */
	struct timer *turn; /* until the turn of the next due viewer */
	uint64_t started_ms; /* since 1970 */
	uint64_t refused_who, refused_how, refused_full, skipped, dropped;
};

/* --- web_conn.c ----------------------------------------------------------------------------- */
void web_conn_server(struct web *w);
void web_conn_take(struct web *w, int fd, const struct caller *caller);
struct web_conn *web_conn_of(struct http_conn *c);

/* --- web_live.c ----------------------------------------------------------------------------- */
/* The handshake has been answered: the connection now belongs to a viewer. */
void web_live_start(struct web_conn *c);
void web_live_stop(struct web_conn *c);
/* Data has arrived. False: the connection is gone. */
bool web_live_read(struct http_conn *http);
/* Sends what is new; false: the connection is gone. */
bool web_live_turn(struct web_conn *c, const struct tell *tell);
/* Sends a close frame, unless one with another code was built before. why: an error; NULL: none.
 * False: the connection is gone. */
bool web_live_close(struct web_conn *c, enum wsframe_code code, const char *why);

/* --- web.c ---------------------------------------------------------------------------------- */
/* Logs the reason, and counts. */
void web_drop(const struct web_conn *c, const char *why);
/* A viewer has connected or gone. */
void web_viewers_changed(struct web *w);
/* The viewer wants another view: it does not wait for the next second. */
void web_hurry(struct web_conn *c);

#endif
