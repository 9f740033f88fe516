/*
 * Watches resolv.conf for other writers (a DHCP client, an editor): inotify on its folder and on
 * that of the link's target, if it was a link, and a check every half minute for what inotify does
 * not report (a bind-mounted file, a replaced folder); every second while that target does not
 * exist. Our lines are inserted again with the new nameservers behind them, at most
 * RESOLVWATCH_TIMES a minute: a program that writes more often wants it otherwise. That is logged
 * once, and the file is left to that program until the following minute is over. Our own writes are
 * recognised by their bytes.
 *
 * Loop 0 only; does not own the keeper.
 *
 *	resolvwatch_start(&w, &config);	// never fails: without inotify the periodic check remains
 *	resolvwatch_stop(&w);
 */
#ifndef EDGEWAY_DNS_RESOLVCONF_RESOLVWATCH_H
#define EDGEWAY_DNS_RESOLVCONF_RESOLVWATCH_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "dns/resolvconf/resolvconf.h"

enum { RESOLVWATCH_TIMES = 10 };

struct resolvwatch;

struct resolvwatch_config {
	struct loop *loop;
	struct resolvconf *keeper;
	const char *path;
	const char *also; /* another file whose changes also call `changed`; NULL: none */
	loop_fn *changed; /* the nameservers may have changed */
	void *arg;
	uint64_t debounce_ms, look_ms, calm_ms; /* 0: 50 ms, 30 s, 60 s */
};

void resolvwatch_start(struct resolvwatch **w, const struct resolvwatch_config *config);
void resolvwatch_stop(struct resolvwatch **w);
/* w NULL: nobody watches now, since a successor is about to. */
void resolvwatch_metrics(const struct resolvwatch *w, struct metrics *m);
/* "mended":N,"left":bool, members of a JSON object; the same of w. */
void resolvwatch_state(const struct resolvwatch *w, struct buf *out);

#endif
