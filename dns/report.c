#include "dns/dns_private.h"

#include <string.h>

struct column {
	const char *name, *help, *labels;
	size_t offset; /* in struct server_counters */
	bool gauge;
};

#define OUTCOME(text, at)                                                                          \
	{                                                                                          \
		"edgeway_dns_queries_total", "Queries by what became of them.",                    \
			"outcome=\"" text "\"",                                                    \
			offsetof(struct server_counters, outcome) +                                \
			(at) * sizeof(_Atomic uint64_t),                                           \
			false                                                                      \
	}
#define COUNTER(text, why, label, member)                                                          \
	{                                                                                          \
		"edgeway_dns_" text, why, label, offsetof(struct server_counters, member), false   \
	}

static const struct column columns[] = {
	COUNTER("messages_total", "Messages received.", "proto=\"udp\"", udp.received),
	COUNTER("messages_total", "Messages received.", "proto=\"tcp\"", tcp),
	COUNTER("batches_total", "Times that queries were read by UDP.", NULL, udp.reads),
	OUTCOME("noerror", SERVER_NOERROR),
	OUTCOME("nodata", SERVER_NODATA),
	OUTCOME("nxdomain", SERVER_NXDOMAIN),
	OUTCOME("servfail", SERVER_SERVFAIL),
	OUTCOME("refused", SERVER_REFUSED),
	OUTCOME("formerr", SERVER_FORMERR),
	OUTCOME("notimp", SERVER_NOTIMP),
	OUTCOME("badvers", SERVER_BADVERS),
	OUTCOME("forwarded", SERVER_FORWARDED),
	OUTCOME("cached", SERVER_CACHED),
	OUTCOME("dropped", SERVER_DROPPED),
	OUTCOME("foreign", SERVER_FOREIGN),
	COUNTER("queries_total", "Queries by what became of them.", "outcome=\"limited\"",
		udp.limited),
	COUNTER("send_errors_total", "Answers that could not be sent.", NULL, udp.send_errors),
	COUNTER("forwarded_total", "Queries sent to upstreams.", NULL, lookup.forward.asked),
	COUNTER("forward_failures_total", "Forwarded queries that no upstream answered.", NULL,
		lookup.forward.failed),
	COUNTER("forward_refused_total", "Queries not forwarded.", "reason=\"no upstream\"",
		lookup.forward.nobody),
	COUNTER("forward_refused_total", "Queries not forwarded.", "reason=\"too many open\"",
		lookup.forward.full),
	COUNTER("forward_refused_total", "Queries not forwarded.",
		"reason=\"too many of one client or question\"", lookup.over_quota),
	COUNTER("forward_late_total",
		"Answers that came after the client had been told that there is none; they are "
		"kept.",
		NULL, lookup.forward.late),
	COUNTER("forward_retries_total", "Times that one more upstream had to be asked.", NULL,
		lookup.forward.fallbacks),
	COUNTER("forward_case_folded_total",
		"Answers of upstreams that did not keep the case of the question.", NULL,
		lookup.forward.case_mismatches),
	COUNTER("forward_case_forged_total",
		"Answers that did not keep the case of the question, of upstreams that keep it by "
		"TCP: somebody may forge them.",
		NULL, lookup.forward.forged),
	COUNTER("cache_hits_total", "Forwarded names answered from the cache.", NULL, lookup.hits),
	COUNTER("cache_misses_total", "Questions that went upstream.", NULL, lookup.misses),
	COUNTER("cache_stale_total",
		"Answers given after their time, no upstream having a new one.", NULL,
		lookup.stale),
	COUNTER("cache_joined_total", "Queries that waited for one in flight.", NULL,
		lookup.joined),
	COUNTER("cache_evicted_total", "Answers that made room for others.", NULL, lookup.evicted),
	{"edgeway_dns_gathering", "Workers so busy that they let queries gather before they read.",
		NULL, offsetof(struct server_counters, udp.gathering), true},
	{"edgeway_dns_cache_entries", "Answers in the cache.", NULL,
		offsetof(struct server_counters, lookup.entries), true},
	{"edgeway_dns_cache_bytes", "Memory of the cache.", NULL,
		offsetof(struct server_counters, lookup.bytes), true},
	{"edgeway_dns_forward_open", "Forwarded queries without an answer yet.", NULL,
		offsetof(struct server_counters, lookup.forward.open), true},
};

static uint64_t
report_sum(const struct dns *d, const struct column *c)
{
	uint64_t all = 0;

	for (size_t i = 0; i < d->n_servers; i++) {
		const char *at = (const char *)server_counters(d->servers[i]) + c->offset;

		all += atomic_load_explicit(
			(const _Atomic uint64_t *)(const void *)at, memory_order_relaxed);
	}
	return all;
}

static void
forward_times(const struct dns *d, struct metrics *m)
{
	double bounds[FORWARD_BUCKETS - 1];
	uint64_t counts[FORWARD_BUCKETS];
	struct column sum_of = {.offset = offsetof(struct server_counters, lookup.forward.took_ms)};
	struct metric_histogram h = {.n = FORWARD_BUCKETS,
		.bounds = bounds,
		.counts = counts,
		.sum = (double)report_sum(d, &sum_of) / 1000};

	for (size_t i = 0; i < FORWARD_BUCKETS; i++) {
		sum_of.offset = offsetof(struct server_counters, lookup.forward.took) +
			i * sizeof(_Atomic uint64_t);
		counts[i] = report_sum(d, &sum_of);
		if (i + 1 < FORWARD_BUCKETS)
			bounds[i] = (double)((uint64_t)FORWARD_FIRST_US << i) / 1e6;
	}
	metric_histogram(m, "edgeway_dns_forward_seconds",
		"From a question's going upstream to its end, with an answer or without.", NULL,
		&h);
}

void
dns_metrics(struct dns *d, struct metrics *m)
{
	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		const struct column *c = &columns[i];

		if (c->gauge)
			metric_gauge(m, c->name, c->help, c->labels, (double)report_sum(d, c));
		else
			metric_counter(m, c->name, c->help, c->labels, report_sum(d, c));
	}
	forward_times(d, m);
	metric_gauge(m, "edgeway_dns_listening", "1 while DNS answers.", NULL, dns_listening(d));
	upstreams_metrics(d->roster, m);
	resolvwatch_metrics(d->watch, m);
}

static const struct column cache_shown[] = {
	COUNTER("hits", NULL, NULL, lookup.hits),
	COUNTER("misses", NULL, NULL, lookup.misses),
	COUNTER("stale", NULL, NULL, lookup.stale),
	COUNTER("joined", NULL, NULL, lookup.joined),
	COUNTER("entries", NULL, NULL, lookup.entries),
	COUNTER("bytes", NULL, NULL, lookup.bytes),
};
static const struct column unanswered_shown[] = {
	COUNTER("malformed", NULL, NULL, outcome[SERVER_DROPPED]),
	COUNTER("foreign", NULL, NULL, outcome[SERVER_FOREIGN]),
	COUNTER("limited", NULL, NULL, udp.limited),
};
static const struct column folded_shown[] = {
	COUNTER("folded", NULL, NULL, lookup.forward.case_mismatches),
	COUNTER("forged", NULL, NULL, lookup.forward.forged),
};

static void
counts_state(const struct dns *d, const struct column *shown, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%s\"%s\":%llu", i > 0 ? "," : "{",
			shown[i].name + strlen("edgeway_dns_"),
			(unsigned long long)report_sum(d, &shown[i]));
	buf_adds(out, "}");
}

void
dns_state(struct dns *d, struct buf *out)
{
	struct addr a = addr_ipv4(d->address, d->port);
	char text[ADDR_TEXT_MAX];

	buf_printf(out, "{\"address\":\"%s\",", d->address != 0 ? addr_text(&a, text) : "");
	upstreams_state(d->roster, out);
	buf_adds(out, ",\"unanswered\":");
	counts_state(d, unanswered_shown, ARRAY_LEN(unanswered_shown), out);
	buf_adds(out, ",\"case\":");
	counts_state(d, folded_shown, ARRAY_LEN(folded_shown), out);
	buf_adds(out, ",\"cache\":");
	counts_state(d, cache_shown, ARRAY_LEN(cache_shown), out);
	buf_adds(out, ",\"resolvConf\":");
	resolvconf_state(d->resolvconf, out);
	buf_adds(out, ",\"resolvConfWatch\":{");
	resolvwatch_state(d->watch, out);
	buf_adds(out, "}}");
}
