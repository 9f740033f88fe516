#include "base/core/metric.h"

#include <stdio.h>

void
metrics_init(struct metrics *m)
{
	buf_init(&m->out, BUF_UNLIMITED);
	m->last[0] = '\0';
}

void
metrics_fini(struct metrics *m)
{
	buf_fini(&m->out);
}

static void
metric_describe(struct metrics *m, const char *type, const char *name, const char *help)
{
	if (strcmp(m->last, name) == 0)
		return;
	buf_printf(&m->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
	snprintf(m->last, sizeof m->last, "%s", name);
}

static void
metric_sample(
	struct metrics *m, const char *type, const char *name, const char *help, const char *labels)
{
	metric_describe(m, type, name, help);
	buf_adds(&m->out, name);
	if (labels != NULL && labels[0] != '\0')
		buf_printf(&m->out, "{%s}", labels);
}

void
metric_counter(
	struct metrics *m, const char *name, const char *help, const char *labels, uint64_t v)
{
	metric_sample(m, "counter", name, help, labels);
	buf_printf(&m->out, " %llu\n", (unsigned long long)v);
}

void
metric_counter_real(
	struct metrics *m, const char *name, const char *help, const char *labels, double v)
{
	metric_sample(m, "counter", name, help, labels);
	buf_printf(&m->out, " %.17g\n", v);
}

void
metric_gauge(struct metrics *m, const char *name, const char *help, const char *labels, double v)
{
	metric_sample(m, "gauge", name, help, labels);
	buf_printf(&m->out, " %.17g\n", v);
}

void
metric_histogram(struct metrics *m, const char *name, const char *help, const char *labels,
	const struct metric_histogram *h)
{
	bool bare = labels == NULL || labels[0] == '\0';
	uint64_t below = 0;

	metric_describe(m, "histogram", name, help);
	for (size_t i = 0; i < h->n; i++) {
		below += h->counts[i];
		buf_printf(
			&m->out, "%s_bucket{%s%sle=\"", name, bare ? "" : labels, bare ? "" : ",");
		if (i + 1 < h->n)
			buf_printf(&m->out, "%.9g", h->bounds[i]);
		else
			buf_adds(&m->out, "+Inf");
		buf_printf(&m->out, "\"} %llu\n", (unsigned long long)below);
	}
	for (int sum = 1; sum >= 0; sum--) {
		buf_printf(&m->out, "%s_%s", name, sum ? "sum" : "count");
		if (!bare)
			buf_printf(&m->out, "{%s}", labels);
		if (sum)
			buf_printf(&m->out, " %.17g\n", h->sum);
		else
			buf_printf(&m->out, " %llu\n", (unsigned long long)below);
	}
}

const char *
metric_label(char *to, size_t size, const char *name, const char *value)
{
	size_t n = (size_t)snprintf(to, size, "%s=\"", name);

	for (; *value != '\0' && n + 4 < size; value++) {
		if (*value == '"' || *value == '\\' || *value == '\n')
			to[n++] = '\\';
		to[n++] = *value == '\n' ? 'n' : *value;
	}
	if (n + 1 < size)
		to[n++] = '"';
	to[MIN(n, size - 1)] = '\0';
	return to;
}
