/*
 * Metrics of this process's resource use, under the names that Prometheus' client libraries give
 * it: process_resident_memory_bytes, process_virtual_memory_bytes, process_cpu_seconds_total,
 * process_open_fds, process_max_fds, process_start_time_seconds.
 *
 *	procinfo_metrics(&m);
 */
#ifndef EDGEWAY_BASE_OS_PROCINFO_H
#define EDGEWAY_BASE_OS_PROCINFO_H

#include "base/core/metric.h"

/* Omits values that cannot be read. */
void procinfo_metrics(struct metrics *m);

#endif
