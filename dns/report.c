#include "dns/dns_private.h"

#include "base/core/figures.h"

#define COUNT(member, metric, labels, help, json)                                                  \
	FIGURE(struct server_counters, member, metric, labels, help, json)
#define OUTCOME(at, text)                                                                          \
	FIGURE_ALSO(struct server_counters, outcome[at], "outcome=\"" text "\"", NULL)

static const struct figure report_figures[] = {
	COUNT(outcome[SERVER_NOERROR], "edgeway_dns_queries_total", "outcome=\"noerror\"",
		"Queries by what became of them.", NULL),
	OUTCOME(SERVER_NODATA, "nodata"),
	OUTCOME(SERVER_NXDOMAIN, "nxdomain"),
	OUTCOME(SERVER_SERVFAIL, "servfail"),
	OUTCOME(SERVER_REFUSED, "refused"),
	OUTCOME(SERVER_FORMERR, "formerr"),
	OUTCOME(SERVER_NOTIMP, "notimp"),
	OUTCOME(SERVER_BADVERS, "badvers"),
	OUTCOME(SERVER_FORWARDED, "forwarded"),
	OUTCOME(SERVER_CACHED, "cached"),
	OUTCOME(SERVER_POD, "asked-hub"),
	OUTCOME(SERVER_DROPPED, "dropped"),
	OUTCOME(SERVER_FOREIGN, "foreign"),
	FIGURE_ALSO(struct server_counters, udp.limited, "outcome=\"limited\"", NULL),
	COUNT(udp.send_errors, "edgeway_dns_send_errors_total", NULL,
		"Answers that could not be sent.", NULL),
	COUNT(lookup.forward.failed, "edgeway_dns_forward_failures_total", NULL,
		"Forwarded queries that no upstream answered.", NULL),
	COUNT(lookup.forward.nobody, "edgeway_dns_forward_refused_total", "reason=\"no upstream\"",
		"Queries not forwarded.", NULL),
	FIGURE_ALSO(struct server_counters, lookup.forward.full, "reason=\"too many open\"", NULL),
	FIGURE_ALSO(struct server_counters, lookup.over_quota, "reason=\"too many waiting\"", NULL),
	COUNT(lookup.forward.open, "edgeway_dns_forward_open", NULL,
		"Forwarded queries without an answer yet.", NULL),
};
static const struct figure report_cache[] = {
	COUNT(lookup.hits, "edgeway_dns_cache_hits_total", NULL,
		"Forwarded names answered from the cache.", "hits"),
	COUNT(lookup.misses, "edgeway_dns_cache_misses_total", NULL,
		"Questions that went upstream.", "misses"),
	COUNT(lookup.stale, "edgeway_dns_cache_stale_total", NULL,
		"Answers given after their time, no upstream having a new one.", "stale"),
	FIGURE_JSON(struct server_counters, lookup.joined, "joined"),
	FIGURE_JSON(struct server_counters, lookup.entries, "entries"),
	FIGURE_JSON(struct server_counters, lookup.bytes, "bytes"),
};
static const struct figure report_unanswered[] = {
	FIGURE_JSON(struct server_counters, outcome[SERVER_DROPPED], "malformed"),
	FIGURE_JSON(struct server_counters, outcome[SERVER_FOREIGN], "foreign"),
	FIGURE_JSON(struct server_counters, udp.limited, "limited"),
};
static const struct figure report_case[] = {
	FIGURE_JSON(struct server_counters, lookup.forward.case_mismatches, "folded"),
	FIGURE_JSON(struct server_counters, lookup.forward.forged, "forged"),
};

static void
forward_times(const struct server_counters *const *of, size_t n, struct metrics *m)
{
	double bounds[FORWARD_BUCKETS - 1];
	uint64_t counts[FORWARD_BUCKETS] = {0}, took_ms = 0;
	struct metric_histogram h = {.n = FORWARD_BUCKETS, .bounds = bounds, .counts = counts};

	for (size_t s = 0; s < n; s++) {
		const struct forward_counters *c = &of[s]->lookup.forward;

		took_ms += atomic_load_explicit(&c->took_ms, memory_order_relaxed);
		for (size_t i = 0; i < FORWARD_BUCKETS; i++)
			counts[i] += atomic_load_explicit(&c->took[i], memory_order_relaxed);
	}
	for (size_t i = 0; i + 1 < FORWARD_BUCKETS; i++)
		bounds[i] = (double)((uint64_t)FORWARD_FIRST_US << i) / 1e6;
	h.sum = (double)took_ms / 1000;
	metric_histogram(m, "edgeway_dns_forward_seconds",
		"From a question's going upstream to its end, with an answer or without.", NULL,
		&h);
}

static const struct server_counters **
report_counters(const struct dns *d)
{
	const struct server_counters **of = xcalloc(d->n_servers + 1, sizeof *of);

	for (size_t i = 0; i < d->n_servers; i++)
		of[i] = server_counters(d->servers[i]);
	return of;
}

void
dns_metrics(struct dns *d, struct metrics *m)
{
	auto_free const struct server_counters **of = report_counters(d);
	const void *const *at = (const void *const *)of;

	figures_metrics_of(FIGURES(report_figures), at, NULL, d->n_servers, m);
	figures_metrics_of(FIGURES(report_cache), at, NULL, d->n_servers, m);
	forward_times(of, d->n_servers, m);
	metric_gauge(m, "edgeway_dns_listening", "1 while DNS answers.", NULL, dns_listening(d));
	upstreams_metrics(d->roster, m);
	resolvwatch_metrics(d->watch, m);
}

void
dns_state(struct dns *d, struct buf *out)
{
	auto_free const struct server_counters **of = report_counters(d);
	const void *const *at = (const void *const *)of;
	const struct addr *six = &d->listeners[DNS_IPV6].at;
	char text[ADDR_TEXT_MAX];

	buf_printf(out, "{\"address\":\"%s\",",
		dns_listening(d) ? addr_text(&d->listeners[DNS_IPV4].at, text) : "");
	if (six->sa.sa_family != AF_UNSPEC)
		buf_printf(out, "\"address6\":\"%s\",", addr_text(six, text));
	upstreams_state(d->roster, out);
	buf_adds(out, ",\"unanswered\":{");
	figures_json_sums(FIGURES(report_unanswered), at, d->n_servers, out);
	buf_adds(out, "},\"case\":{");
	figures_json_sums(FIGURES(report_case), at, d->n_servers, out);
	buf_adds(out, "},\"cache\":{");
	figures_json_sums(FIGURES(report_cache), at, d->n_servers, out);
	buf_adds(out, "},\"resolvConf\":");
	resolvconf_state(d->resolvconf, out);
	buf_adds(out, ",\"host\":{");
	resolvlink_state(d->link, out);
	buf_adds(out, "},\"resolvConfWatch\":{");
	resolvwatch_state(d->watch, out);
	buf_adds(out, "}}");
}
