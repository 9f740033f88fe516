/*
 * Reduces the hub's root privileges to what it needs: CAP_NET_BIND_SERVICE (ports below 1024 of
 * `listen` and the ingress listeners), and CAP_NET_ADMIN only if ingress.redirect needs kernel
 * rules. If a configured file or folder belongs to another user, CAP_DAC_OVERRIDE, CAP_CHOWN and
 * CAP_FOWNER are kept too. Call before the first thread is started.
 */
#ifndef EDGEWAY_SRC_HUB_HUB_RIGHTS_H
#define EDGEWAY_SRC_HUB_HUB_RIGHTS_H

#include "src/hub/hub_options.h"

/* Logs what was kept (debug), and why that is more than usual or could not be reduced. */
void hub_rights_reduce(const struct hub_options *options);

#endif
