/*
 * Follows resolv.conf while our lines are in it: a DHCP client, a VPN or a person writes it anew and
 * would take the mesh's names away until the next start. `fn` is called a moment after the file was
 * written, replaced or deleted, also by ourselves, so it must do nothing when all is as it should
 * be; never more often than every few seconds, so that two keepers do not wear out the disk. Only the folder
 * is watched, by inotify: what happens behind a bind mount of the file alone is not seen.
 *
 *	resolvwatch_start(&watch, loop, "/etc/resolv.conf", on_changed, self);	// again: nothing
 */
#ifndef EDGEWAY_DNS_RESOLVWATCH_H
#define EDGEWAY_DNS_RESOLVWATCH_H

#include "base/loop.h"

struct resolvwatch;

/* Does nothing when *w is there; a folder that cannot be watched is logged, once. */
void resolvwatch_start(
	struct resolvwatch **w, struct loop *loop, const char *path, loop_fn *fn, void *arg);
void resolvwatch_stop(struct resolvwatch **w);

#endif
