/* The workers' counters added up, for /metrics and /debug/state. On loop 0. */
#include <stdio.h>
#include <string.h>

#include "lb/known.h"
#include "lb/private.h"

static uint64_t
sum(const struct lb *lb, size_t offset)
{
	uint64_t total = 0;

	for (size_t i = 0; i < lb->config.n_workers; i++) {
		const char *base = (const char *)&lb->workers[i]->counters;

		total += atomic_load_explicit(
			(const _Atomic uint64_t *)(const void *)(base + offset),
			memory_order_relaxed);
	}
	return total;
}

void
lb_metrics(struct lb *lb, struct metrics *m)
{
	if (lb == NULL)
		return; /* the agent is stopping */
#define COUNTER_WRITE(name, metric, labels, help)                                                  \
	metric_counter(                                                                            \
		m, "edgeway_lb_" metric, help, labels, sum(lb, offsetof(struct counters, name)));
	LB_COUNTERS(COUNTER_WRITE)
#undef COUNTER_WRITE
	metric_gauge(m, "edgeway_lb_connections_active", "Connections of clients now.", NULL,
		(double)sum(lb, offsetof(struct counters, active)));
	metric_gauge(m, "edgeway_lb_endpoints_ejected",
		"Endpoints left out now, each counted by every worker that knows it.", NULL,
		(double)sum(lb, offsetof(struct counters, ejected)));
	if (lb->snapshot != NULL)
		tallies_use(lb->tallies, lb->snapshot);
	tallies_metrics(lb->tallies, m);
}

void
lb_state(struct lb *lb, struct buf *out)
{
	const uint32_t a = lb == NULL ? 0 : lb->address;
	const char *comma = "";

	if (lb == NULL) {
		buf_adds(out, "null"); /* the agent is stopping */
		return;
	}
	buf_printf(out,
		"{\"listen\":\"%u.%u.%u.%u:%u\",\"listening\":%s,\"workers\":%zu,\"active\":%llu,"
		"\"counters\":{",
		a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255, lb->config.port,
		a != 0 ? "true" : "false", lb->config.n_workers,
		(unsigned long long)sum(lb, offsetof(struct counters, active)));
#define COUNTER_WRITE(name, metric, labels, help)                                                  \
	buf_printf(out, "%s\"" #name "\":%llu", comma,                                             \
		(unsigned long long)sum(lb, offsetof(struct counters, name)));                     \
	comma = ",";
	LB_COUNTERS(COUNTER_WRITE)
#undef COUNTER_WRITE
	buf_adds(out, "},\"services\":");
	tallies_state(lb->tallies, out);
	buf_adds(out, ",\"endpoints\":");
	known_write(lb, out);
	buf_adds(out, "}");
}
