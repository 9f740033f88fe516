/*
 * Shares one worker's findings about an endpoint with the others: that it is ejected, and that it
 * is back. So a dead endpoint costs the node one failed attempt, not one for each worker. Each
 * other worker gets a post; it accepts the finding unless it has heard from the endpoint itself
 * just now, and does not pass it on. On the worker's loop.
 */
#ifndef EDGEWAY_LB_PROXY_OUTLIER_SHARE_H
#define EDGEWAY_LB_PROXY_OUTLIER_SHARE_H

#include "lb/proxy/worker.h"

/* w has just ejected t. */
void outlier_share_ejected(const struct worker *w, const struct target *t);
/* t works: it is used again here, and on other workers that had ejected it. `answered`: it answered
 * a request, not only a dial. */
void outlier_share_worked(struct worker *w, struct target *t, bool answered);
/* lb_let_go: loop 0 informs every worker. */
void outlier_share_let_go(
	const struct lb *lb, const struct in6_addr *ip, uint16_t port, bool doubted);

/* lb_reroute: loop 0 informs every worker. */
void outlier_share_reroute(const struct lb *lb);

#endif
