/*
 * The view that a viewer of the hub's page wants (hub/page/web.h): a line in query format, from the
 * page's script. Pure; a leaf that gets input from strangers.
 *
 *	view=nodes&q=edge&sort=in&desc&from=50
 *	view=service&name=default%2Fweb
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_WANT_H
#define EDGEWAY_HUB_PAGE_WEB_WANT_H

#include "base/core/util.h"
#include "model/mesh.h"

enum {
	WANT_LINE_MAX = 1024,
	WANT_TEXT_MAX = 128,
	WANT_NAME_MAX = MESH_NAME_MAX + MESH_NODE_MAX + 2
};

enum want_view {
	WANT_OVERVIEW,
	WANT_NODES,
	WANT_SERVICES,
	WANT_EVENTS,
	WANT_NODE, /* `name` */
	WANT_SERVICE, /* `name`: NAMESPACE/NAME */
	WANT_VIEWS,
};

enum want_sort {
	SORT_NAME,
	SORT_SITE,
	SORT_HEALTH,
	SORT_STREAMS,
	SORT_RTT,
	SORT_IN,
	SORT_OUT,
	SORT_SINCE,
	SORT_ENDPOINTS,
	SORT_READY,
	SORTS,
};

struct want {
	enum want_view view;
	enum want_sort sort;
	bool desc;
	bool troubled; /* only what has a problem */
	bool has_site;
	unsigned from; /* rows to skip */
	char q[WANT_TEXT_MAX]; /* a part of the names; "": any */
	char site[WANT_NAME_MAX]; /* with has_site: only nodes of it */
	char name[WANT_NAME_MAX];
};

/* 0, or -EINVAL: then *to is the overview. */
int want_parse(struct want *to, const char *line);

#endif
