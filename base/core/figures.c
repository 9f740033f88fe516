#include "base/core/figures.h"

#include <assert.h>
#include <string.h>

static uint64_t
figure_value(const struct figure *f, const void *of)
{
	const void *at = (const char *)of + f->offset;

	switch (f->bytes) {
	case sizeof(bool):
		return __atomic_load_n((const bool *)at, __ATOMIC_RELAXED);
	case sizeof(uint32_t):
		return __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED);
	default:
		assert(f->bytes == sizeof(uint64_t));
		return __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
	}
}

static uint64_t
figure_sum(const struct figure *f, const void *const *of, size_t n_of)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n_of; i++)
		sum += figure_value(f, of[i]);
	return sum;
}

/* `first` is the row that names the metric. */
static void
figure_sample(const struct figure *first, const char *labels, uint64_t v, struct metrics *m)
{
	size_t n = strlen(first->metric), tail = strlen("_total");

	if (n > tail && strcmp(first->metric + n - tail, "_total") == 0)
		metric_counter(m, first->metric, first->help, labels, v);
	else
		metric_gauge(m, first->metric, first->help, labels, (double)v);
}

void
figures_metrics_of(const struct figure *rows, size_t n, const void *const *of,
	const char *const *labels, size_t n_of, struct metrics *m)
{
	const struct figure *first = rows;

	for (const struct figure *f = rows; f < rows + n; f++) {
		if (f->metric == NULL)
			continue;
		if (f->metric[0] != '\0')
			first = f;
		if (labels == NULL)
			figure_sample(first, f->labels, figure_sum(f, of, n_of), m);
		for (size_t i = 0; labels != NULL && i < n_of; i++)
			figure_sample(first, labels[i], figure_value(f, of[i]), m);
	}
}

void
figures_metrics(const struct figure *rows, size_t n, const void *of, struct metrics *m)
{
	figures_metrics_of(rows, n, &of, NULL, 1, m);
}

static const char *
figures_comma(const struct buf *out)
{
	return buf_len(out) > 0 && buf_at(out)[buf_len(out) - 1] == '{' ? "" : ",";
}

void
figures_json_sums(
	const struct figure *rows, size_t n, const void *const *of, size_t n_of, struct buf *out)
{
	for (const struct figure *f = rows; f < rows + n; f++) {
		uint64_t v = figure_sum(f, of, n_of);

		if (f->json == NULL)
			continue;
		buf_printf(out, "%s\"%s\":", figures_comma(out), f->json);
		if (f->bytes == sizeof(bool))
			buf_adds(out, v != 0 ? "true" : "false");
		else
			buf_printf(out, "%llu", (unsigned long long)v);
	}
}

void
figures_json(const struct figure *rows, size_t n, const void *of, struct buf *out)
{
	figures_json_sums(rows, n, &of, 1, out);
}
