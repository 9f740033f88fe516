#include "src/ctl/ctl_top.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/histogram.h"
#include "src/common/ctl_answer.h"
#include "src/ctl/ctl_resolve.h"
#include "src/ctl/ctl_table.h"

enum { LOOKS = 20 /* states in the history that is drawn */, BUCKETS_MAX = 64 };

enum count { REQUESTS, ERRORS, CONNECTIONS, BYTES_UP, BYTES_DOWN, COUNTS };

struct service {
	char *name;
	double total[COUNTS]; /* since the daemon's start, at the last state */
	double rate[COUNTS]; /* per second, between the last two states */
	double history
		[LOOKS]; /* of requests, or of connections if there are no requests; newest last */
	uint64_t took[BUCKETS_MAX]; /* responses by duration, since the daemon's start */
	double p50_ms, p99_ms; /* of responses between the last two states; < 0: there were none */
	double open;
	bool seen;
};

/* Kept between two calls, until the program ends. */
static struct {
	struct service *services;
	size_t n;
	double at_s; /* of the last state; 0: none yet */
} top;

static struct service *
service_of(const char *name)
{
	for (size_t i = 0; i < top.n; i++) {
		if (strcmp(top.services[i].name, name) == 0)
			return &top.services[i];
	}
	top.services = xrealloc(top.services, (top.n + 1) * sizeof *top.services);
	top.services[top.n] = (struct service){.name = xstrdup(name)};
	return &top.services[top.n++];
}

/* The durations of responses since the last state. */
static void
note_times(struct service *s, const struct tree_node *row)
{
	uint64_t lately[BUCKETS_MAX] = {0}, first_us = (uint64_t)ctl_number(row, "first_bucket_us"),
		 all = 0;
	unsigned n = 0;

	tree_each(tree_get(row, "took"), bucket) {
		uint64_t now = strtoull(tree_text(bucket, "0"), NULL, 10);

		if (n == BUCKETS_MAX)
			break;
		lately[n] = now >= s->took[n] ? now - s->took[n] : 0;
		s->took[n] = now;
		all += lately[n++];
	}
	s->p50_ms = s->p99_ms = -1;
	if (all == 0)
		return;
	s->p50_ms = (double)histogram_percentile_us(lately, n, first_us, 50) / 1000;
	s->p99_ms = (double)histogram_percentile_us(lately, n, first_us, 99) / 1000;
}

/* A restarted daemon counts from 0 again. */
static void
ctl_top_note(struct service *s, const struct tree_node *row, double passed_s)
{
	static const char *const classes[] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
	double now[COUNTS] = {
		[ERRORS] = ctl_number(row, "failures") + ctl_number(row, "requests.5xx"),
		[CONNECTIONS] = ctl_number(row, "connections"),
		[BYTES_UP] = ctl_number(row, "bytes_up"),
		[BYTES_DOWN] = ctl_number(row, "bytes_down")};
	const struct tree_node *requests = tree_get(row, "requests");

	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		now[REQUESTS] += ctl_number(requests, classes[i]);
	for (int i = 0; i < COUNTS; i++) {
		s->rate[i] = now[i] >= s->total[i] && passed_s > 0
			? (now[i] - s->total[i]) / passed_s
			: 0;
		s->total[i] = now[i];
	}
	memmove(s->history, s->history + 1, (LOOKS - 1) * sizeof s->history[0]);
	s->history[LOOKS - 1] = now[REQUESTS] > 0 ? s->rate[REQUESTS] : s->rate[CONNECTIONS];
	note_times(s, row);
	s->open = ctl_number(row, "active");
	s->seen = true;
}

static void
ctl_top_look(const struct tree_node *answer)
{
	double now = ctl_now_ms() / 1000, passed = top.at_s != 0 ? now - top.at_s : 0;

	for (size_t i = 0; i < top.n; i++)
		top.services[i].seen = false;
	tree_each(tree_path(answer, "lb.services"), row) {
		auto_free char *name = ctl_text(row, "namespace")[0] == '\0'
			? xstrdup("(all others)")
			: xasprintf("%s/%s", ctl_text(row, "namespace"), ctl_text(row, "service"));

		ctl_top_note(service_of(name), row, passed);
	}
	top.at_s = now;
}

static int
busier_first(const void *a, const void *b)
{
	const struct service *x = a, *y = b;
	double dx = x->rate[REQUESTS] + x->rate[CONNECTIONS],
	       dy = y->rate[REQUESTS] + y->rate[CONNECTIONS];

	return dx != dy ? (dx < dy) - (dx > dy) : strcmp(x->name, y->name);
}

static void
add_history(struct buf *out, const struct service *s)
{
	static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	const int highest = ARRAY_LEN(bars) - 1;
	double most = 0;

	for (int i = 0; i < LOOKS; i++)
		most = MAX(most, s->history[i]);
	for (int i = 0; i < LOOKS; i++) {
		int height = most > 0 ? (int)(s->history[i] / most * highest) : 0;

		buf_adds(out, bars[height == 0 && s->history[i] > 0 ? 1 : height]);
	}
}

static void
add_row(struct table *t, const struct service *s)
{
	const double values[] = {s->rate[REQUESTS], s->rate[ERRORS], s->rate[CONNECTIONS], s->open,
		s->rate[BYTES_UP], s->rate[BYTES_DOWN], s->p50_ms, s->p99_ms};
	struct buf texts[ARRAY_LEN(values) + 1];
	const char *cells[ARRAY_LEN(values) + 2] = {s->name};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		buf_init(&texts[i], BUF_UNLIMITED);
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		if (values[i] >= 0)
			ctl_add_amount(&texts[i], values[i]);
	}
	add_history(&texts[ARRAY_LEN(values)], s);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		cells[i + 1] = buf_str(&texts[i]);
	table_row(t, cells);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		buf_fini(&texts[i]);
}

int
ctl_show_top(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"SERVICE", "REQ/S", "ERR/S", "CONN/S", "OPEN",
		"B/S IN", "B/S OUT", "P50 MS", "P99 MS", "LATELY", NULL};
	bool first = top.at_s == 0;
	auto_table struct table t;

	(void)argument;
	table_init(&t, headers);
	ctl_top_look(answer);
	if (first)
		return 0;
	if (top.n > 0)
		qsort(top.services, top.n, sizeof *top.services, busier_first);
	for (size_t i = 0; i < top.n; i++) {
		if (top.services[i].seen)
			add_row(&t, &top.services[i]);
	}
	printf("%s: %s connections open; what came and how long it took since the look before\n\n",
		ctl_text(answer, "node"), ctl_text(answer, "lb.active"));
	table_print(&t, stdout);
	if (t.n_rows == 0)
		puts("(no service had a request yet)");
	return 0;
}
