/*
 * The worker loops: one thread each, created before the objects that live on them, run until
 * stopped.
 *
 *	workers_new(&w, kinds, n_kinds, 2, err);	// loops exist, posts are kept
 *	workers_run(w, err);		// threads start
 *	workers_stop(&w);		// from loop 0, when nothing lives on them any more
 */
#ifndef EDGEWAY_SRC_COMMON_WORKERS_H
#define EDGEWAY_SRC_COMMON_WORKERS_H

#include "base/core/loop.h"

struct workers;

enum { WORKERS_MOST = 4 };
/* How many loops a configuration wants; 0: as many as there are cores, at most WORKERS_MOST. */
size_t workers_wanted(size_t configured);
/* `each` loops for each of `kinds`, in this order; these are static, and short: the names of
 * threads ("worker-1", "worker-2") are cut at 15 bytes. */
int workers_new(struct workers **w, const char *const kinds[], size_t n_kinds, size_t each,
	struct err *err);
struct loop *const *workers_loops(const struct workers *w);
size_t workers_count(const struct workers *w);
enum { WORKER_NAME_MAX = 16 };
const char *workers_name(const struct workers *w, size_t i, char to[WORKER_NAME_MAX]);
/* If a thread cannot be had, none of them runs. */
int workers_run(struct workers *w, struct err *err);
void workers_stop(struct workers **w);

#endif
