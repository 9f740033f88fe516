/*
 * What the hub may do as root, reduced to what it needs: CAP_NET_BIND_SERVICE (ports below 1024 of
 * `listen` and the ways in), and CAP_NET_ADMIN only where ingress.redirect wants rules of the
 * kernel. Where a file or folder that it is given is another user's, CAP_DAC_OVERRIDE, CAP_CHOWN
 * and CAP_FOWNER are kept too. Before the first thread is started.
 */
#ifndef EDGEWAY_SRC_HUB_HUB_RIGHTS_H
#define EDGEWAY_SRC_HUB_HUB_RIGHTS_H

#include "src/hub/hub_options.h"

/* The log tells what was kept (debug), and why it is more than usual or could not be less. */
void hub_rights_reduce(const struct hub_options *options);

#endif
