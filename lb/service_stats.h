/*
 * What each service had of traffic, for /metrics and `edgewayctl`. A tally is one service's; in it
 * each worker has a cell of its own, which it alone writes, without a lock, and any thread may
 * read. Both are made when a worker first meets the service (a client connects), so that services
 * without traffic cost nothing. A tally lives as long as its service, or as a worker uses it; what
 * a service had that is gone is added to the one of `other`, so that sums never fall. So is what
 * services have that come when there are `most` already.
 *
 *	t = service_stats_get(all, service, worker_index, &cell);	// a lock; when a group begins
 *	count(&cell->requests[2], 1);				// none
 *	service_stats_put(all, &t);
 */
#ifndef EDGEWAY_LB_SERVICE_STATS_H
#define EDGEWAY_LB_SERVICE_STATS_H

#include <stdatomic.h>

#include "base/core/histogram.h"
#include "base/core/metric.h"
#include "model/snapshot.h"

enum { SERVICE_STATS_BUCKETS = 17, SERVICE_STATS_FIRST_US = 128 };

/* Members that are counters, and nothing else. */
struct service_stats_cell {
	_Atomic uint64_t requests[6]; /* by class of status */
	_Atomic uint64_t connections, closed, retries, ejections, failures;
	_Atomic uint64_t bytes_up, bytes_down;
	_Atomic uint64_t took_us; /* sum of all first bytes' */
	_Atomic uint64_t took[SERVICE_STATS_BUCKETS]; /* as of base/core/histogram.h */
};

struct tallies;
struct service_stats;

struct tallies *tallies_new(size_t n_workers, size_t most);
/* All must have been put back. */
void tallies_free(struct tallies **all);
struct service_stats *service_stats_get(struct tallies *all, const struct service *s, size_t worker,
	struct service_stats_cell **cell);
void service_stats_put(struct tallies *all, struct service_stats **t);
bool service_stats_is_of(const struct service_stats *t, const struct service *s);
/* Forgets services that are not in the snapshot and that no worker uses. */
void tallies_use(struct tallies *all, const struct snapshot *s);

void tallies_metrics(struct tallies *all, struct metrics *m);
/* JSON array, services by name, `other` with an empty namespace last, where it has something. */
void tallies_state(struct tallies *all, struct buf *out);

static inline void
service_stats_add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline void
service_stats_took(struct service_stats_cell *c, uint64_t us)
{
	service_stats_add(
		&c->took[histogram_bucket(us, SERVICE_STATS_FIRST_US, SERVICE_STATS_BUCKETS)], 1);
	service_stats_add(&c->took_us, us);
}

#endif
