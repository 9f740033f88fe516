/*
 * Watches resolv.conf for other writers (a DHCP client, an editor): inotify on its folder, and a
 * look every half minute for what inotify does not tell (a file that is bind-mounted, a folder that
 * was replaced). Our lines are put back with the new nameservers behind them, at most
 * RESOLVWATCH_TIMES a minute: who writes more often than that wants it otherwise. That is said
 * once, and the file is theirs until the minute after is over. Our own writes are known by their
 * bytes.
 *
 * Loop 0 only; does not own the keeper.
 *
 *	resolvwatch_start(&w, loop, rc, path, on_changed, self);	// never fails: the look remains
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
	const char *also; /* a file whose changes are told by `changed` as well; NULL: none */
	loop_fn *changed; /* the nameservers may be others now */
	void *arg;
	uint64_t debounce_ms, look_ms, calm_ms; /* 0: 50 ms, 30 s, 60 s */
};

void resolvwatch_start(struct resolvwatch **w, const struct resolvwatch_config *config);
void resolvwatch_stop(struct resolvwatch **w);
void resolvwatch_metrics(const struct resolvwatch *w, struct metrics *m);
/* "mended":N,"left":bool, members of a JSON object. */
void resolvwatch_state(const struct resolvwatch *w, struct buf *out);

#endif
