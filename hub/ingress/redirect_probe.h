/*
 * Checks that this host's connections are really redirected to the hub. From time to time it
 * connects as any program would, to an address that the rules redirect; the connection should
 * arrive at our own listener, which recognizes its source and drops it. Only this check finds a
 * missing route on this host, or rules of other programs, that keep connections away. Part of
 * hub/ingress/redirect.c.
 *
 *	probe = redirect_probe_new(loop, on_told, me);
 *	redirect_probe_to(probe, &addr);	// now and then on; NULL: nothing is to be tried
 *	if (redirect_probe_arrived(probe, &peer))	// it is ours: drop it
 */
#ifndef EDGEWAY_HUB_INGRESS_REDIRECT_PROBE_H
#define EDGEWAY_HUB_INGRESS_REDIRECT_PROBE_H

#include "base/core/loop.h"
#include "base/core/sock.h"

enum { REDIRECT_PROBE_MS = 30 * 1000, REDIRECT_PROBE_WAIT_MS = 2000, REDIRECT_PROBE_SOON_MS = 200 };

enum redirect_probe_state {
	REDIRECT_PROBE_NONE, /* no probe yet */
	REDIRECT_PROBE_ARRIVES,
	REDIRECT_PROBE_NO_ROUTE, /* the host cannot even start to connect */
	REDIRECT_PROBE_LOST, /* the connection goes elsewhere */
};

struct redirect_probe;

/* Called when the state has changed. */
typedef void redirect_probe_fn(void *arg, enum redirect_probe_state state);

struct redirect_probe *redirect_probe_new(struct loop *loop, redirect_probe_fn *told, void *arg);
void redirect_probe_free(struct redirect_probe **p);
void redirect_probe_to(struct redirect_probe *p, const struct addr *to);
/* Probes soon, because the path may have changed. */
void redirect_probe_again(struct redirect_probe *p);
/* peer: of an accepted connection. True if it is the probe's. */
bool redirect_probe_arrived(struct redirect_probe *p, const struct addr *peer);
enum redirect_probe_state redirect_probe_state(const struct redirect_probe *p);

#endif
