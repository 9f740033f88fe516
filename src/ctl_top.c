#include "src/ctl_top.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "src/ctl_answer.h"
#include "src/ctl_table.h"

enum { LOOKS = 20 }; /* in the history that is drawn */

enum count { REQUESTS, ERRORS, CONNECTIONS, BYTES_UP, BYTES_DOWN, COUNTS };

struct service {
	char *name;
	double total[COUNTS]; /* since the daemon's start, at the last look */
	double rate[COUNTS]; /* a second, between the last two */
	double history
		[LOOKS]; /* of requests, or of connections where there are none; newest last */
	double p50_ms, p99_ms, open;
	bool seen;
};

/* Between two looks; the program ends with it. */
static struct {
	struct service *services;
	size_t n;
	double at_s; /* of the last look, 0: none yet */
} top;

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

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

/* A daemon that was started anew counts from 0 again. */
static void
note(struct service *s, const struct tree_node *row, double passed_s)
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
	s->p50_ms = ctl_number(row, "p50_us") / 1000;
	s->p99_ms = ctl_number(row, "p99_us") / 1000;
	s->open = ctl_number(row, "active");
	s->seen = true;
}

static void
look(const struct tree_node *answer)
{
	double now = now_s(), passed = top.at_s != 0 ? now - top.at_s : 0;

	for (size_t i = 0; i < top.n; i++)
		top.services[i].seen = false;
	tree_each(tree_path(answer, "lb.services"), row)
	{
		auto_free char *name = ctl_text(row, "namespace")[0] == '\0'
			? xstrdup("(all others)")
			: xasprintf("%s/%s", ctl_text(row, "namespace"), ctl_text(row, "service"));

		note(service_of(name), row, passed);
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
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		ctl_add_amount(&texts[i], values[i]);
	add_history(&texts[ARRAY_LEN(values)], s);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		cells[i + 1] = buf_str(&texts[i]);
	table_row(t, cells);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		buf_fini(&texts[i]);
}

/* What fits a terminal below the heading; all where it is none. */
static size_t
rows_shown(void)
{
	struct winsize size;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
			size.ws_row > 4
		? size.ws_row - 4U
		: SIZE_MAX;
}

int
ctl_show_top(const struct tree_node *answer, const char *argument)
{
	static const char *const headers[] = {"SERVICE", "REQ/S", "ERR/S", "CONN/S", "OPEN",
		"B/S IN", "B/S OUT", "P50 MS", "P99 MS", "LATELY", NULL};
	bool first = top.at_s == 0;
	size_t left = rows_shown();
	auto_table struct table t;

	(void)argument;
	table_init(&t, headers);
	look(answer);
	if (first)
		return 0;
	qsort(top.services, top.n, sizeof *top.services, busier_first);
	for (size_t i = 0; i < top.n && t.n_rows < left; i++) {
		if (top.services[i].seen)
			add_row(&t, &top.services[i]);
	}
	printf("%s: %s connections open, percentiles since the start\n\n", ctl_text(answer, "node"),
		ctl_text(answer, "lb.active"));
	table_print(&t, stdout);
	if (t.n_rows == 0)
		puts("(no service had a request yet)");
	return 0;
}
