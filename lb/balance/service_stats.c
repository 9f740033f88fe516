#include "lb/balance/service_stats.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { VALUES = sizeof(struct service_stats_cell) / sizeof(uint64_t), LABELS_BYTES = 512 };

/* The members of a cell, as sums. */
struct sums {
	uint64_t requests[6];
	uint64_t connections, closed, retries, ejections, failures;
	uint64_t bytes_up, bytes_down;
	uint64_t took_us;
	uint64_t took[SERVICE_STATS_BUCKETS];
};
_Static_assert(sizeof(struct sums) == sizeof(struct service_stats_cell), "the same members");

struct service_stats {
	struct service_stats *next; /* by name */
	char *namespace, *name;
	unsigned refs;
	struct service_stats_cell *cells[]; /* one for each worker, NULL: none yet */
};

struct tallies {
	pthread_mutex_t lock;
	size_t n_workers, most, n;
	struct service_stats *first;
	struct service_stats *other;
	/* counts of removed services, part of `other`: cells belong to their workers */
	struct sums gone;
};

static struct service_stats *
service_stats_make(const struct tallies *all, const char *namespace, const char *name)
{
	struct service_stats *t = xcalloc(1, sizeof *t + all->n_workers * sizeof t->cells[0]);

	t->namespace = xstrdup(namespace);
	t->name = xstrdup(name);
	return t;
}

static void
service_stats_drop(const struct tallies *all, struct service_stats *t)
{
	for (size_t i = 0; i < all->n_workers; i++)
		free(t->cells[i]);
	free(t->namespace);
	free(t->name);
	free(t);
}

struct tallies *
tallies_new(size_t n_workers, size_t most)
{
	struct tallies *all = xcalloc(1, sizeof *all);

	pthread_mutex_init(&all->lock, NULL);
	all->n_workers = n_workers;
	all->most = most;
	all->other = service_stats_make(all, "", "other");
	return all;
}

void
tallies_free(struct tallies **out)
{
	struct tallies *all = take_ptr(out);
	struct service_stats *t;

	assert(all->other->refs == 0);
	service_stats_drop(all, all->other);
	while ((t = all->first) != NULL) {
		assert(t->refs == 0);
		all->first = t->next;
		service_stats_drop(all, t);
	}
	pthread_mutex_destroy(&all->lock);
	free(all);
}

static int
service_stats_compare(const struct service_stats *t, const struct service *s)
{
	int c = strcmp(t->namespace, s->namespace);

	return c != 0 ? c : strcmp(t->name, s->name);
}

bool
service_stats_is_of(const struct service_stats *t, const struct service *s)
{
	return t->namespace[0] != '\0' && service_stats_compare(t, s) == 0;
}

static struct service_stats *
find_or_make(struct tallies *all, const struct service *s)
{
	struct service_stats **at = &all->first, *t;

	while (*at != NULL && service_stats_compare(*at, s) < 0)
		at = &(*at)->next;
	if (*at != NULL && service_stats_compare(*at, s) == 0)
		return *at;
	if (all->n >= all->most)
		return all->other;
	t = service_stats_make(all, s->namespace, s->name);
	t->next = *at;
	*at = t;
	all->n++;
	return t;
}

struct service_stats *
service_stats_get(struct tallies *all, const struct service *s, size_t worker,
	struct service_stats_cell **cell)
{
	struct service_stats *t;

	pthread_mutex_lock(&all->lock);
	t = find_or_make(all, s);
	t->refs++;
	if (t->cells[worker] == NULL)
		t->cells[worker] = xcalloc(1, sizeof *t->cells[worker]);
	*cell = t->cells[worker];
	pthread_mutex_unlock(&all->lock);
	return t;
}

void
service_stats_put(struct tallies *all, struct service_stats **out)
{
	struct service_stats *t = take_ptr(out);

	if (t == NULL)
		return;
	pthread_mutex_lock(&all->lock);
	t->refs--;
	pthread_mutex_unlock(&all->lock);
}

static void
service_stats_add_cells(struct sums *to, const struct tallies *all, const struct service_stats *t)
{
	uint64_t *sums = (uint64_t *)to;

	for (size_t i = 0; i < all->n_workers; i++) {
		const _Atomic uint64_t *values = (const _Atomic uint64_t *)t->cells[i];

		for (size_t k = 0; values != NULL && k < VALUES; k++)
			sums[k] += atomic_load_explicit(&values[k], memory_order_relaxed);
	}
}

static bool
is_there(const struct snapshot *s, const struct service_stats *t)
{
	return snapshot_find(s, t->namespace, strlen(t->namespace), t->name, strlen(t->name)) !=
		NULL;
}

void
tallies_use(struct tallies *all, const struct snapshot *s)
{
	struct service_stats **at, *t;

	pthread_mutex_lock(&all->lock);
	for (at = &all->first; (t = *at) != NULL;) {
		if (t->refs > 0 || is_there(s, t)) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		all->n--;
		service_stats_add_cells(&all->gone, all, t);
		service_stats_drop(all, t);
	}
	pthread_mutex_unlock(&all->lock);
}

/* --- export --------------------------------------------------------------------------------- */

/* A copy, so that the lock is not held while it is written. */
struct row {
	char *namespace, *name;
	struct sums sums;
};

static bool
is_empty(const struct sums *s)
{
	static const struct sums nothing;

	return memcmp(s, &nothing, sizeof nothing) == 0;
}

static void
service_stats_copy(struct row *row, const struct tallies *all, const struct service_stats *t)
{
	row->namespace = xstrdup(t->namespace);
	row->name = xstrdup(t->name);
	service_stats_add_cells(&row->sums, all, t);
}

static struct row *
rows_copy(struct tallies *all, size_t *n)
{
	struct row *rows;

	*n = 0;
	pthread_mutex_lock(&all->lock);
	rows = xcalloc(all->n + 1, sizeof *rows);
	for (const struct service_stats *t = all->first; t != NULL; t = t->next)
		service_stats_copy(&rows[(*n)++], all, t);
	rows[*n].sums = all->gone;
	service_stats_copy(&rows[*n], all, all->other);
	*n += 1;
	pthread_mutex_unlock(&all->lock);
	return rows;
}

static void
rows_free(struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(rows[i].namespace);
		free(rows[i].name);
	}
	free(rows);
}

static uint64_t
percentile_us(const struct sums *s, unsigned percent)
{
	return histogram_percentile_us(
		s->took, SERVICE_STATS_BUCKETS, SERVICE_STATS_FIRST_US, percent);
}

/* A counter of all services, possibly with one more label. */
struct column {
	const char *name, *help, *label;
	size_t offset; /* in struct sums */
	size_t minus; /* for a gauge: what is subtracted; 0: a counter */
};

#define COLUMN(what, help, label, member)                                                          \
	{                                                                                          \
		what, help, label, offsetof(struct sums, member), 0                                \
	}
#define REQUESTS_HELP "Answers sent to clients, by class of status."
#define BYTES_HELP "Payload relayed."

static const struct column columns[] = {
	COLUMN("edgeway_service_requests_total", REQUESTS_HELP, "code_class=\"1xx\"", requests[1]),
	COLUMN("edgeway_service_requests_total", REQUESTS_HELP, "code_class=\"2xx\"", requests[2]),
	COLUMN("edgeway_service_requests_total", REQUESTS_HELP, "code_class=\"3xx\"", requests[3]),
	COLUMN("edgeway_service_requests_total", REQUESTS_HELP, "code_class=\"4xx\"", requests[4]),
	COLUMN("edgeway_service_requests_total", REQUESTS_HELP, "code_class=\"5xx\"", requests[5]),
	COLUMN("edgeway_service_connections_total", "Connections of clients.", NULL, connections),
	{"edgeway_service_connections_active", "Connections of clients now.", NULL,
		offsetof(struct sums, connections), offsetof(struct sums, closed)},
	COLUMN("edgeway_service_failures_total",
		"Requests and connections that got no endpoint, or lost it.", NULL, failures),
	COLUMN("edgeway_service_retries_total",
		"Attempts after the first, for one request or connection.", NULL, retries),
	COLUMN("edgeway_service_ejections_total",
		"Endpoints taken out for a while after failures of this service's requests.", NULL,
		ejections),
	COLUMN("edgeway_service_bytes_total", BYTES_HELP, "direction=\"upstream\"", bytes_up),
	COLUMN("edgeway_service_bytes_total", BYTES_HELP, "direction=\"client\"", bytes_down),
};

static uint64_t
service_stats_value(const struct sums *s, size_t offset)
{
	uint64_t v;

	memcpy(&v, (const char *)s + offset, sizeof v);
	return v;
}

static void
labels_of(char to[LABELS_BYTES], const struct row *row, const char *more)
{
	char namespace[128], name[300];

	snprintf(to, LABELS_BYTES, "%s,%s%s%s",
		metric_label(namespace, sizeof namespace, "namespace", row->namespace),
		metric_label(name, sizeof name, "service", row->name), more != NULL ? "," : "",
		more != NULL ? more : "");
}

static void
write_column(struct metrics *m, const struct column *c, const struct row *row)
{
	uint64_t v = service_stats_value(&row->sums, c->offset);
	char labels[LABELS_BYTES];

	if (v == 0 && c->label != NULL)
		return; /* services that speak no HTTP have no classes */
	labels_of(labels, row, c->label);
	if (c->minus != 0)
		metric_gauge(m, c->name, c->help, labels,
			(double)(int64_t)(v - service_stats_value(&row->sums, c->minus)));
	else
		metric_counter(m, c->name, c->help, labels, v);
}

/* Samples of one name must be adjacent: each column has the name of the one before it, or a new
 * name. */
static void
write_counters(struct metrics *m, const struct row *rows, size_t n)
{
	for (size_t i = 0, next; i < ARRAY_LEN(columns); i = next) {
		for (next = i + 1; next < ARRAY_LEN(columns); next++) {
			if (strcmp(columns[next].name, columns[i].name) != 0)
				break;
		}
		for (size_t r = 0; r < n; r++) {
			for (size_t k = i; k < next && !is_empty(&rows[r].sums); k++)
				write_column(m, &columns[k], &rows[r]);
		}
	}
}

static void
write_times(struct metrics *m, const struct row *rows, size_t n)
{
	double bounds[SERVICE_STATS_BUCKETS - 1];
	char labels[LABELS_BYTES];

	for (int i = 0; i < SERVICE_STATS_BUCKETS - 1; i++)
		bounds[i] = (double)((uint64_t)SERVICE_STATS_FIRST_US << i) / 1e6;
	for (size_t r = 0; r < n; r++) {
		const struct metric_histogram h = {.n = SERVICE_STATS_BUCKETS,
			.bounds = bounds,
			.counts = rows[r].sums.took,
			.sum = (double)rows[r].sums.took_us / 1e6};

		if (percentile_us(&rows[r].sums, 100) == 0)
			continue;
		labels_of(labels, &rows[r], NULL);
		metric_histogram(m, "edgeway_service_first_byte_seconds",
			"From a request's head to its answer's head.", labels, &h);
	}
}

void
tallies_metrics(struct tallies *all, struct metrics *m)
{
	size_t n;
	struct row *rows = rows_copy(all, &n);

	write_counters(m, rows, n);
	write_times(m, rows, n);
	rows_free(rows, n);
}

static void
write_row(struct buf *out, const struct row *row)
{
	const struct sums *s = &row->sums;

	buf_printf(out, "{\"namespace\":\"%s\",\"service\":\"%s\",\"requests\":{", row->namespace,
		row->name);
	for (int i = 1; i <= 5; i++)
		buf_printf(out, "%s\"%dxx\":%llu", i > 1 ? "," : "", i,
			(unsigned long long)s->requests[i]);
	buf_printf(out,
		"},\"connections\":%llu,\"active\":%lld,\"failures\":%llu,\"retries\":%llu,"
		"\"ejections\":%llu,\"bytes_up\":%llu,\"bytes_down\":%llu,\"p50_us\":%llu,\"p99_"
		"us\":%llu,\"first_bucket_us\":%d,\"took\":[",
		(unsigned long long)s->connections, (long long)(s->connections - s->closed),
		(unsigned long long)s->failures, (unsigned long long)s->retries,
		(unsigned long long)s->ejections, (unsigned long long)s->bytes_up,
		(unsigned long long)s->bytes_down, (unsigned long long)percentile_us(s, 50),
		(unsigned long long)percentile_us(s, 99), SERVICE_STATS_FIRST_US);
	for (int i = 0; i < SERVICE_STATS_BUCKETS; i++)
		buf_printf(out, "%s%llu", i > 0 ? "," : "", (unsigned long long)s->took[i]);
	buf_adds(out, "]}");
}

void
tallies_state(struct tallies *all, struct buf *out)
{
	size_t n;
	struct row *rows = rows_copy(all, &n);
	const char *comma = "";

	buf_adds(out, "[");
	for (size_t i = 0; i < n; i++) {
		if (is_empty(&rows[i].sums))
			continue;
		buf_adds(out, comma);
		write_row(out, &rows[i]);
		comma = ",";
	}
	buf_adds(out, "]");
	rows_free(rows, n);
}
