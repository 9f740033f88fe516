/*
 * What one worker finds out about an endpoint, told to the others: that it is left out, and that it
 * is back. So a dead endpoint costs the node one request's attempt and not one for each worker.
 * Told by a post to each other worker; it believes what it hears unless it has heard of the
 * endpoint itself just now, and tells nobody. Worker's loop.
 */
#ifndef EDGEWAY_LB_OUTLIER_SHARE_H
#define EDGEWAY_LB_OUTLIER_SHARE_H

#include "lb/private.h"

/* w has just left t out. */
void outlier_share_ejected(const struct worker *w, const struct target *t);
/* t works: it is used again here, and elsewhere where it was left out. `answered`: a request, not
 * only a dial. */
void outlier_share_worked(struct worker *w, struct target *t, bool answered);
/* Every worker is told by loop 0: lb_let_go. */
void outlier_share_let_go(
	const struct lb *lb, const struct in6_addr *ip, uint16_t port, bool doubted);

/* The same: lb_reroute. */
void outlier_share_reroute(const struct lb *lb);

#endif
