/* Sums of the workers' counters, for /metrics and /debug/state. On loop 0. */
#include <stdio.h>
#include <string.h>

#include "base/core/figures.h"
#include "lb/known.h"
#include "lb/proxy/worker.h"
#include "model/json.h"

#define COUNTER_FIGURE(name, metric, labels, help)                                                 \
	FIGURE(struct counters, name, metric, labels, help, #name),
static const struct figure stats_figures[] = {LB_COUNTERS(COUNTER_FIGURE)};
static const struct figure stats_now[] = {
	FIGURE(struct counters, active, "edgeway_lb_connections_active", NULL,
		"Connections of clients now.", "active"),
	FIGURE(struct counters, ejected, "edgeway_lb_endpoints_ejected", NULL,
		"Endpoints left out now, each counted by every worker that knows it.", NULL),
};

/* To be freed. */
static const void **
stats_counters(const struct lb *lb)
{
	const void **of = xcalloc(lb->config.n_workers + 1, sizeof *of);

	for (size_t i = 0; i < lb->config.n_workers; i++)
		of[i] = &lb->workers[i]->counters;
	return of;
}

uint64_t
lb_down(struct lb *lb)
{
	uint64_t n = 0;

	if (lb == NULL)
		return 0;
	pthread_mutex_lock(&lb->shares.lock);
	for (const struct shared *s = lb->shares.first; s != NULL; s = s->next)
		n += atomic_load(&s->ill);
	pthread_mutex_unlock(&lb->shares.lock);
	for (size_t i = 0; i < lb->config.n_workers; i++)
		n += atomic_load_explicit(&lb->workers[i]->counters.ejected, memory_order_relaxed);
	return n;
}

static const char *const memory_names[MEMORY_KINDS] = {"own", "sockets"};

static void
stats_memory(const struct lb *lb, struct metrics *m)
{
	static const char *const labels[MEMORY_KINDS] = {"memory=\"own\"", "memory=\"sockets\""};

	for (int i = 0; i < MEMORY_KINDS; i++)
		metric_gauge(m, "edgeway_lb_memory_bytes",
			"Held for clients: in buffers, and by the kernel in their sockets.",
			labels[i], (double)fair_share_used(lb->memory[i]));
}

static void
stats_memory_state(const struct lb *lb, struct buf *out)
{
	for (int i = 0; i < MEMORY_KINDS; i++)
		buf_printf(out, "%s\"%s\":{\"used\":%llu,\"limit\":%llu}",
			i == 0 ? "\"memory\":{" : ",", memory_names[i],
			(unsigned long long)fair_share_used(lb->memory[i]),
			(unsigned long long)fair_share_limit(lb->memory[i]));
	buf_adds(out, "},");
}

void
lb_metrics(struct lb *lb, struct metrics *m)
{
	auto_free const void **of = NULL;

	if (lb == NULL)
		return; /* the agent is stopping */
	of = stats_counters(lb);
	figures_metrics_of(FIGURES(stats_figures), of, NULL, lb->config.n_workers, m);
	figures_metrics_of(FIGURES(stats_now), of, NULL, lb->config.n_workers, m);
	metric_gauge(m, "edgeway_lb_port_taken",
		"1 while another process has mesh.listenPort, and the proxy listens elsewhere.",
		NULL, lb->moved[0] != '\0');
	stats_memory(lb, m);
	if (lb->snapshot != NULL)
		tallies_use(lb->tallies, lb->snapshot);
	tallies_metrics(lb->tallies, m);
}

void
lb_state(struct lb *lb, struct buf *out, bool lists)
{
	const uint32_t a = lb == NULL ? 0 : lb->address;
	auto_free const void **of = NULL;

	if (lb == NULL) {
		buf_adds(out, "null"); /* the agent is stopping */
		return;
	}
	buf_printf(out, "{\"listen\":\"%u.%u.%u.%u:%u\",\"listening\":%s,\"workers\":%zu", a >> 24,
		a >> 16 & 255, a >> 8 & 255, a & 255, a != 0 ? lb->port : lb->config.port,
		a != 0 ? "true" : "false", lb->config.n_workers);
	if (!IN6_IS_ADDR_UNSPECIFIED(&lb->address6)) {
		const struct addr six = addr_of(&lb->address6, lb->port);
		char text[ADDR_TEXT_MAX];

		buf_printf(out, ",\"listen6\":\"%s\"", addr_text(&six, text));
	}
	of = stats_counters(lb);
	figures_json_sums(FIGURES(stats_now), of, lb->config.n_workers, out);
	buf_adds(out, ",");
	stats_memory_state(lb, out);
	buf_adds(out, "\"counters\":{");
	figures_json_sums(FIGURES(stats_figures), of, lb->config.n_workers, out);
	buf_printf(out, "},\"listenPort\":%u,\"trouble\":", lb->config.port);
	json_add_text(out, lb->moved);
	if (lists) {
		buf_adds(out, ",\"services\":");
		tallies_state(lb->tallies, out);
		buf_adds(out, ",\"endpoints\":");
		known_write(lb, out);
	}
	buf_adds(out, "}");
}
