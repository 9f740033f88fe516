/*
 * Writer of the Prometheus text format 0.0.4. Each part keeps its own counters and writes them when
 * asked; all samples of one name must come one after the other. Names:
 * edgeway_<part>_<what>_<unit>.
 *
 *	metric_counter(m, "edgeway_dns_queries_total", "Queries received.", "proto=\"udp\"", n);
 */
#ifndef EDGEWAY_BASE_CORE_METRIC_H
#define EDGEWAY_BASE_CORE_METRIC_H

#include "base/core/buf.h"

/* At most so many nodes get series of their own, per metric name; the others appear in the state
 * and in edgewayctl. */
enum { METRIC_NODES_MAX = 1000 };

struct metrics {
	struct buf out;
	char last[128]; /* name that HELP and TYPE were written for */
};

void metrics_init(struct metrics *m);
void metrics_fini(struct metrics *m);
/* `labels` without braces, values already escaped by metric_label, or NULL. */
void metric_counter(
	struct metrics *m, const char *name, const char *help, const char *labels, uint64_t v);
/* A counter of seconds or of other fractional values. */
void metric_counter_real(
	struct metrics *m, const char *name, const char *help, const char *labels, double v);
void metric_gauge(
	struct metrics *m, const char *name, const char *help, const char *labels, double v);
/* counts: n buckets, not cumulative; bounds: upper bounds of all but the last. */
struct metric_histogram {
	size_t n;
	const double *bounds;
	const uint64_t *counts;
	double sum;
};
void metric_histogram(struct metrics *m, const char *name, const char *help, const char *labels,
	const struct metric_histogram *h);
/* name="value" with the escapes of the format, cut to fit; returns `to`. */
const char *metric_label(char *to, size_t size, const char *name, const char *value);

#endif
