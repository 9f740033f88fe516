/*
 * Traffic statistics for each service, for /metrics and `edgewayctl`. A struct service_stats
 * belongs to one service; in it each worker has a cell that it alone writes, without a lock, and
 * any thread may read. Both are made when a worker first uses the service (a client connects), so
 * services without traffic cost nothing. They live as long as the service, or as long as a worker
 * uses them. The counts of a removed service are added to those of `other`, so that sums never
 * fall; `other` also counts all services beyond the first `most`.
 *
 *	t = service_stats_get(all, service, worker_index, &cell); // locks; for a new group
 *	count(&cell->requests[2], 1);				   // no lock
 *	service_stats_put(all, &t);
 */
#ifndef EDGEWAY_LB_BALANCE_SERVICE_STATS_H
#define EDGEWAY_LB_BALANCE_SERVICE_STATS_H

#include <stdatomic.h>

#include "base/core/histogram.h"
#include "base/core/metric.h"
#include "model/snapshot.h"

enum { SERVICE_STATS_BUCKETS = 17, SERVICE_STATS_FIRST_US = 128 };

/* Members must be counters, and nothing else. */
struct service_stats_cell {
	_Atomic uint64_t requests[6]; /* by class of status */
	_Atomic uint64_t connections, closed, retries, ejections, failures;
	_Atomic uint64_t bytes_up, bytes_down;
	_Atomic uint64_t took_us; /* sum of all times to the first byte */
	_Atomic uint64_t took[SERVICE_STATS_BUCKETS]; /* as in base/core/histogram.h */
};

struct tallies;
struct service_stats;

struct tallies *tallies_new(size_t n_workers, size_t most);
/* All must have been put back before. */
void tallies_free(struct tallies **all);
struct service_stats *service_stats_get(struct tallies *all, const struct service *s, size_t worker,
	struct service_stats_cell **cell);
void service_stats_put(struct tallies *all, struct service_stats **t);
bool service_stats_is_of(const struct service_stats *t, const struct service *s);
/* Forgets services that are not in the snapshot and that no worker uses. */
void tallies_use(struct tallies *all, const struct snapshot *s);

void tallies_metrics(struct tallies *all, struct metrics *m);
/* JSON array, services by name; `other`, with an empty namespace, comes last if it has counts. */
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
