/*
 * The data of the hub's page (hub/page/web.h): JSON, an object per line, each with its kind in "t".
 * web_tell.c writes the common part and the lists, web_attention.c the problems, web_map.c sites
 * and nodes for the map, web_seen.c one node, one service and how each node sees it. All output is
 * bounded, whatever the size of the cluster: TELL_ROWS rows, TELL_DRAWN nodes, TELL_SHOWN
 * endpoints. Names come from the cluster and from nodes: they are written as texts, never as
 * markup. On the hub's loop.
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_TELL_H
#define EDGEWAY_HUB_PAGE_WEB_TELL_H

#include "hub/page/web_dead.h"
#include "hub/page/web_probe.h"
#include "hub/page/web_survey.h"
#include "hub/page/web_want.h"

enum {
	TELL_ROWS = 50,
	TELL_NAMED = 6, /* of each kind of problem, by name */
	TELL_SITES = 120,
	TELL_DRAWN = 400, /* nodes that are drawn one by one */
	TELL_SHOWN = 16, /* endpoints of a port, as one node sees it */
	TELL_PLACES = 200, /* endpoints of a port, as the cluster has it */
	TELL_BUILT = 20000, /* endpoints that are built for nodes' views at a time */
};

struct tell {
	const struct survey *survey;
	const struct survey_sources *from;
	uint64_t started_ms; /* since 1970 */
	size_t viewers;
	struct probes *probes;
	const struct dead *dead;
};

/* {"t":"top",...}: counts, traffic, replicas. */
void tell_top(const struct tell *t, struct buf *out);
/* The view that the viewer wants: {"t":"overview"|"nodes"|"services"|"node"|"service",...}; nothing
 * for events. */
void tell_view(const struct tell *t, const struct want *want, struct buf *out);
/* {"t":"events","rows":[...]}: those from *seen on; nothing if there are none. */
void tell_events(size_t *seen, struct buf *out);

/* --- parts ---------------------------------------------------------------------------------- */
/* The members of a node's row, without braces. */
void tell_node_row(const struct survey *s, const struct survey_node *n, struct buf *out);
void tell_map(const struct tell *t, struct buf *out);
void tell_attention(const struct tell *t, struct buf *out);
void tell_node(const struct tell *t, const struct want *want, struct buf *out);
void tell_service(const struct tell *t, const struct want *want, struct buf *out);
const char *tell_health(enum survey_health health);
/* {"good":12,...} */
void tell_healths(const size_t of[SURVEY_HEALTHS], struct buf *out);

#endif
