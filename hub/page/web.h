/*
 * The hub's page: what it knows of nodes, tunnels and services, for a browser. Read-only, off
 * unless web.listen names an address. Files come from the program itself; data comes over a
 * websocket at /live, a line of JSON for each thing that has changed (hub/page/web_tell.h), at most
 * once a second. Who may see it the rules of access say (`hub:web`).
 *
 *	request ─► web_judge (method, Host, Origin) ─► access (who) ─► file, or /live ─► web_live: lines in (web_want), lines out (web_tell)
 *
 * Bounded: WEB_CONNECTIONS_MAX connections, web.viewers viewers, heads of WEB_HEAD_MAX bytes. A
 * viewer who does not read is passed over until he does, and dropped after WEB_STALL_MS; nothing
 * queues up for him. While nobody looks nothing is gathered. Each viewer has a turn of the loop of
 * his own. On the hub's loop.
 *
 *	rc = web_start(&web, &(struct web_config){.loop = loop, .listen = "127.0.0.1:10014", .access = access,
 *		.sources = on_sources, .arg = hub}, &err);
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
	WEB_HEAD_MAX = 8 * 1024,
	WEB_HEAD_MS = 10 * 1000, /* for a head, TLS included, and between two requests */
	WEB_STALL_MS =
		30 * 1000, /* bytes wait and none are taken, or a viewer says nothing at all */
	WEB_PING_MS = 10 * 1000,
	WEB_TICK_MS = 1000,
};

struct web;

struct web_config {
	struct loop *loop;
	struct web_options options; /* texts are borrowed */
	const struct acl *access; /* these three outlive it */
	struct self_guard *guard;
	struct peers *peers; /* that are asked for their nodes */
	probes_ask_fn *ask; /* nodes that are connected here, with arg */
	/* What there is to see now. */
	void (*sources)(void *arg, struct survey_sources *to);
	void *arg;
};

int web_start(struct web **w, const struct web_config *config, struct err *err);
/* Ends all connections. */
void web_stop(struct web **w);
/* In what follows NULL is none. */
/* Reads the certificates again, for connections to come. 0, or -errno and those of until now
 * stay. */
int web_renew(struct web *w, struct err *err);
/* Ends the connections of viewers whom the rules, as they are now, would not let in. How many. */
unsigned web_recheck(struct web *w);
/* The hub stops: viewers are told to come again, and nobody new is let in. */
void web_leave(struct web *w);
void web_metrics(const struct web *w, struct metrics *m);
/* {"listen","viewers",...}, or null. */
void web_state(const struct web *w, struct buf *out);

#endif
