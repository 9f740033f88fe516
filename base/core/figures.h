/*
 * A table of what a part counts: a row is a number in the part's struct, its metric (metric.h) and
 * its member in the part's JSON. Metrics whose name ends in _total are counters, others gauges. A
 * number is an unsigned integer or a bool; another thread may write it as an _Atomic.
 *
 *	static const struct figure figures[] = {
 *		FIGURE(struct part, opened, "edgeway_carrier_dials_total", "result=\"open\"",
 *			"Attempts to open it.", "opened"),
 *		FIGURE_ALSO(struct part, failed, "result=\"failed\"", "failed"),
 *		FIGURE_JSON(struct part, n_open, "open"),
 *	};
 *	figures_metrics(figures, ARRAY_LEN(figures), p, m); // or FIGURES(figures), p, m
 *	figures_json(figures, ARRAY_LEN(figures), p, out);
 *
 * Pure; any thread.
 */
#ifndef EDGEWAY_BASE_CORE_FIGURES_H
#define EDGEWAY_BASE_CORE_FIGURES_H

#include <stddef.h>

#include "base/core/metric.h"

struct figure {
	const char *metric, /* NULL: in the JSON alone; "": that of the row above, other labels */
		*labels, /* or NULL */
		*help, *json; /* NULL: in the metrics alone */
	size_t offset, bytes; /* of the number in the struct */
};

#define FIGURE_ROW(type, member, metric, labels, help, json)                                       \
	{                                                                                          \
		metric, labels, help, json, offsetof(type, member), sizeof(((type *)0)->member)    \
	}
#define FIGURE(type, member, metric, labels, help, json)                                           \
	FIGURE_ROW(type, member, metric, labels, help, json)
#define FIGURE_ALSO(type, member, labels, json) FIGURE_ROW(type, member, "", labels, NULL, json)
#define FIGURE_JSON(type, member, json) FIGURE_ROW(type, member, NULL, NULL, NULL, json)
#define FIGURES(rows) rows, ARRAY_LEN(rows)

/* The table's metrics, of one struct. */
void figures_metrics(const struct figure *rows, size_t n, const void *of, struct metrics *m);
/* Of the structs at of[0] to of[n_of - 1]: their sums where `labels` is NULL, else a sample of each
 * with labels[i] in place of the row's. */
void figures_metrics_of(const struct figure *rows, size_t n, const void *const *of,
	const char *const *labels, size_t n_of, struct metrics *m);
/* Adds "json":number for each row that has a name there; with a comma in front unless `out` ends
 * with { now. */
void figures_json(const struct figure *rows, size_t n, const void *of, struct buf *out);
void figures_json_sums(
	const struct figure *rows, size_t n, const void *const *of, size_t n_of, struct buf *out);

#endif
