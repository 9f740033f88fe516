/*
 * The hub's web page: the state of nodes, tunnels and services for a browser. Read-only, off unless
 * web.listen names an address. Files are part of the program; data comes over a websocket at /live,
 * one line of JSON for each change (hub/page/web_tell.h), at most once a second. The access rules
 * say who may see it (`hub:web`).
 *
 *	request ─► web_judge (method, Host, Origin) ─► access (who) ─┬─► file
 *	                                                             └─► /live: web_live
 *	web_live: lines in (web_want), lines out (web_tell)
 *
 * Limits: WEB_CONNECTIONS_MAX connections, beyond which one of the address that has most makes room
 * (http_server_victim), web.viewers viewers, and those of base/http/http_server.h. A viewer that
 * does not read gets no new data until it does, and its connection is closed after WEB_STALL_MS;
 * nothing queues up for it. Without viewers no data is collected. Each viewer gets a loop turn of
 * its own. On the hub's loop.
 *
 *	rc = web_start(&web, &(struct web_config){.loop = loop, .listen = "127.0.0.1:10014",
 *		.access = access, .sources = on_sources, .arg = hub}, &err);
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_H
#define EDGEWAY_HUB_PAGE_WEB_H

#include "base/core/metric.h"
#include "hub/hub.h"
#include "hub/page/web_probe.h"
#include "hub/page/web_survey.h"
#include "hub/port/acl.h"

enum {
	WEB_CONNECTIONS_MAX = 128,
	/* for a request head, TLS handshake included, and between two requests */
	WEB_HEAD_MS = 10 * 1000,
	WEB_STALL_MS =
		30 * 1000, /* data waits and none is taken, or a viewer sends nothing at all */
	WEB_PING_MS = 10 * 1000,
	WEB_TICK_MS = 1000,
};

struct web;

struct web_config {
	struct loop *loop;
	struct web_options options; /* texts are borrowed */
	const struct acl *access; /* these three outlive it */
	struct self_guard *guard;
	struct peers *peers; /* asked about their nodes */
	probes_ask_fn *ask; /* asks the nodes that are connected here, with arg */
	/* Returns the current sources of the data. */
	void (*sources)(void *arg, struct survey_sources *to);
	void *arg;
};

int web_start(struct web **w, const struct web_config *config, struct err *err);
/* Ends all connections. */
void web_stop(struct web **w);
/* In the following functions w may be NULL: no page. */
/* Reads the certificates again, for new connections. Returns 0, or -errno; then the old ones
 * stay. */
int web_renew(struct web *w, struct err *err);
/* Ends the connections of viewers that the current rules would not let in. Returns how many. */
unsigned web_recheck(struct web *w);
/* The hub stops: tells viewers to connect again, and accepts no new ones. */
void web_leave(struct web *w);
void web_metrics(const struct web *w, struct metrics *m);
/* {"listen","viewers",...}, or null. */
void web_state(const struct web *w, struct buf *out);

#endif
