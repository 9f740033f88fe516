/*
 * Which addresses the hub's own machine has beside it: what lies in a network of one of its interfaces is dialled from here,
 * whatever a node far away declares. Looked at again after HOME_MS at the latest. On the hub's loop.
 *
 *	if (home_has(home, &ip))
 */
#ifndef EDGEWAY_HUB_HOME_H
#define EDGEWAY_HUB_HOME_H

#include <netinet/in.h>

#include "base/loop.h"

enum { HOME_MS = 5000, HOME_NETS_MAX = 64 };

struct home;

struct home *home_new(struct loop *loop);
void home_free(struct home **h);
bool home_has(struct home *h, const struct in6_addr *ip);

#endif
