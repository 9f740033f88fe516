/*
 * The services of the hub's page, as they were at the last survey: keys are copies, in order. A
 * part of hub/page/web_survey; on the hub's loop.
 *
 *	summary_take(s, fanout, cluster);
 *	n = summary_list(s, &list);
 */
#ifndef EDGEWAY_HUB_PAGE_WEB_SUMMARY_H
#define EDGEWAY_HUB_PAGE_WEB_SUMMARY_H

#include "hub/sync/fanout.h"

struct service_summary {
	const char *key; /* NULL: none has this number */
	struct fanout_counts counts;
	bool fault; /* somebody has to mend it: FINDING_FAULT of model/cluster/cluster.h */
};

struct summary;

struct summary *summary_new(void);
void summary_free(struct summary **s);
void summary_take(struct summary *s, const struct fanout *f, const struct cluster *c);
/* In order of their keys; good until the next summary_take. */
size_t summary_list(const struct summary *s, const struct service_summary *const **list);

/* Do some of its endpoints serve, and others not? */
static inline bool
service_is_partly(const struct service_summary *s)
{
	return s->counts.ready > 0 && s->counts.ready < s->counts.endpoints;
}

#endif
