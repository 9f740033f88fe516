/*
 * The services on the hub's page, as of the last survey: keys are copies, sorted. A part of
 * hub/page/web_survey; on the hub's loop.
 *
 *	summary_take(s, fanout, cluster);
 *	n = summary_list(s, &list);
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_SUMMARY_H
#define EDGEWAY_HUB_PAGE_WEB_SUMMARY_H

#include "hub/sync/fanout.h"

struct service_summary {
	const char *key; /* NULL: this number is not in use */
	struct fanout_counts counts;
	bool fault; /* somebody must fix it: FINDING_FAULT of model/cluster/cluster.h */
};

struct summary;

struct summary *summary_new(void);
void summary_free(struct summary **s);
void summary_take(struct summary *s, const struct fanout *f, const struct cluster *c);
/* Sorted by key; valid until the next summary_take. */
size_t summary_list(const struct summary *s, const struct service_summary *const **list);

/* Returns true if some of its endpoints serve, and others do not. */
static inline bool
service_is_partly(const struct service_summary *s)
{
	return s->counts.ready > 0 && s->counts.ready < s->counts.endpoints;
}

#endif
