/*
 * Watches one folder with inotify and reports the name of an entry whose content may have changed:
 * closed after writing, moved in or out, linked, deleted. A file that is still being written is not
 * reported. name NULL: events were lost (queue overflow) or the folder itself went away: read
 * everything again. Called on the loop's thread.
 */
#ifndef EDGEWAY_BASE_OS_FSWATCH_H
#define EDGEWAY_BASE_OS_FSWATCH_H

#include "base/core/loop.h"

struct fswatch;
typedef void fswatch_fn(void *arg, const char *name);

int fswatch_start(struct fswatch **w, struct loop *loop, const char *folder, fswatch_fn *fn,
	void *arg, struct err *err);
void fswatch_stop(struct fswatch **w);

#endif
