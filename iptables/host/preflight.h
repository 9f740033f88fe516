/*
 * Detects settings of this node that break the mesh although every rule is in place: addresses of
 * the node within the range of fake IPs, a network of the node around that range, forwarding
 * switched off while the kernel carries ports. Checks from time to time, changes nothing; logs when
 * a problem begins and ends, and reports it in between. Part of iptables.h, loop 0 only.
 *
 *	rc = preflight_refuse(&range, own, err);	// before the rules are installed
 *	preflight_look(&o, &(struct preflight_where){...});
 */
#ifndef EDGEWAY_IPTABLES_HOST_PREFLIGHT_H
#define EDGEWAY_IPTABLES_HOST_PREFLIGHT_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "base/core/metric.h"
#include "iptables/table/expr.h"

enum obstacle { OBSTACLE_RANGE, OBSTACLE_FORWARDING, OBSTACLE_KINDS };

struct preflight {
	char text[OBSTACLE_KINDS][256]; /* "": no problem of this kind */
};

struct preflight_where {
	struct expr_net range, range6; /* of the fake addresses; range6.bits 0: none */
	int own; /* index of our own interface, which has an address in range6; 0: none */
	const char *interface;
	bool carries; /* the kernel carries ports */
};

/* -EADDRINUSE when an address of this node is in the range: with the rules in place no process on
 * the node could reach that network any more, perhaps not even the hub. */
int preflight_refuse(const struct expr_net *range, int own, struct err *err);
void preflight_look(struct preflight *o, const struct preflight_where *where);
void preflight_metrics(const struct preflight *o, struct metrics *m);
void preflight_state(const struct preflight *o, struct buf *out); /* JSON list */

#endif
