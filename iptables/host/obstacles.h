/*
 * What on this node spoils the mesh although every rule is in place: addresses of the node's own
 * within the range of fake IPs, a network of its own around it, forwarding switched off while the
 * kernel carries ports. Looks now and then, changes nothing; says it when one begins and when it
 * ends, and tells it while it lasts. Part of the spine (iptables.h), loop 0 only.
 *
 *	rc = obstacles_refuse(subnet, mask, err);	// before the rules are installed
 *	obstacles_look(&o, &(struct obstacles_where){...});
 */
#ifndef EDGEWAY_IPTABLES_HOST_OBSTACLES_H
#define EDGEWAY_IPTABLES_HOST_OBSTACLES_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "base/core/metric.h"

enum obstacle { OBSTACLE_RANGE, OBSTACLE_FORWARDING, OBSTACLE_KINDS };

struct obstacles {
	char text[OBSTACLE_KINDS][256]; /* "": there is none */
};

struct obstacles_where {
	uint32_t subnet, mask; /* host byte order */
	const char *interface;
	bool carries; /* the kernel carries ports */
};

/* -EADDRINUSE when an address of this node is in the range: with the rules in place nobody on the node could
 * reach that network any more, perhaps not even its hub. */
int obstacles_refuse(uint32_t subnet, uint32_t mask, struct err *err);
void obstacles_look(struct obstacles *o, const struct obstacles_where *where);
void obstacles_metrics(const struct obstacles *o, struct metrics *m);
void obstacles_state(const struct obstacles *o, struct buf *out); /* JSON list */

#endif
