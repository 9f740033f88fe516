/*
 * A short form of each service, for the lists of the hub's page: made anew only when its digest is another, and SUMMARY_VIEWS views
 * are read a time at most, so that ten thousand services hold nothing up. A part of hub/web_survey; on the hub's loop.
 *
 *	summary_take(s, fanout);
 *	n = summary_list(s, &list);
 */
#ifndef EDGEWAY_HUB_WEB_SUMMARY_H
#define EDGEWAY_HUB_WEB_SUMMARY_H

#include "hub/fanout.h"

enum { SUMMARY_VIEWS = 400 };

struct service_summary {
	const char *key; /* NULL: none has this number */
	uint64_t digest;
	uint16_t ports, endpoints, ready; /* endpoints: places that serve or might */
	bool headless, external, known; /* known: these numbers are read */
};

struct summary;

struct summary *summary_new(void);
void summary_free(struct summary **s);
void summary_take(struct summary *s, const struct fanout *f);
/* In order of their keys; good until the next summary_take. */
size_t summary_list(const struct summary *s, const struct service_summary *const **list);
/* Has it endpoints, and none of them serves? */
bool summary_is_idle(const struct service_summary *s);

#endif
