/*
 * How many connections clients may have here, in all and each. A proxied connection takes two descriptors; were they
 * all gone, then new clients would wait, kept connections could reach no endpoint, and DNS and metadata would starve as
 * well. So there is a limit below that of the process, and of what is left under it no client may have more than is
 * left for all others: one alone gets a half, two a third each, and a newcomer always finds room. A client is an
 * address; a few that share a counter share what one may have. One for all workers; any thread.
 *
 *	if (!crowd_enter(c, ip))
 *		refuse;
 *	...
 *	crowd_leave(c, ip);
 */
#ifndef EDGEWAY_LB_CROWD_H
#define EDGEWAY_LB_CROWD_H

#include "base/util.h"

struct crowd;

/* descriptors: what the process may have open; SIZE_MAX: no limit */
struct crowd *crowd_new(size_t descriptors);
void crowd_free(struct crowd **c);
bool crowd_enter(struct crowd *c, uint32_t client);
void crowd_leave(struct crowd *c, uint32_t client);
/* Of this process, as it is now. */
size_t crowd_descriptors(void);

#endif
