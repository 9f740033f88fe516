#include "dns/forward/upstreams.h"

#include <errno.h>
#include <string.h>

#include "base/core/figures.h"
#include "base/core/log.h"
#include "dns/answer/message.h"
#include "dns/forward/loop_probe.h"

enum { TRY_MS = 1000, TRIES = 2, AGAIN_MS = 300000, LOOPING_MS = 5000 };

struct entry {
	struct upstreams *r;
	struct addr addr;
	struct resolve *resolve; /* while a loop check is running */
	uint64_t mark, check_ms; /* of the running check; when the next one is due */
	unsigned checks; /* since the last reason to check */
	bool looping;
};

struct upstreams {
	struct upstreams_config config;
	struct entry *entries[FORWARD_UPSTREAMS_MAX];
	size_t n;
	struct addr known[FORWARD_UPSTREAMS_MAX]; /* those in use first */
	size_t n_in_use;
	struct timer *timer;
	bool checking; /* set by the first upstreams_check */
	uint64_t loops;
};

static void
entry_free(struct entry **out)
{
	struct entry *e = take_ptr(out);

	resolve_free(&e->resolve);
	free(e);
}

static void
upstreams_adopt(struct upstreams *r)
{
	struct addr before[FORWARD_UPSTREAMS_MAX];
	size_t n_before = r->n_in_use;

	memcpy(before, r->known, sizeof before);
	r->n_in_use = 0;
	for (size_t looping = 0, n = 0; looping < 2; looping++) {
		for (size_t i = 0; i < r->n; i++) {
			if (r->entries[i]->looping == (looping == 1))
				r->known[n++] = r->entries[i]->addr;
		}
		r->n_in_use = looping == 0 ? n : r->n_in_use;
	}
	if (r->n > 0 && r->n_in_use == 0)
		log_error("dns",
			"every upstream sends our queries back to us: names outside the cluster "
			"get "
			"SERVFAIL; give others in dns.upstreams");
	if (r->n_in_use != n_before || memcmp(before, r->known, n_before * sizeof before[0]) != 0)
		r->config.changed(r->config.arg);
}

/* --- loops ---------------------------------------------------------------------------------- */

static void
upstreams_judge(struct entry *e, bool looping)
{
	struct upstreams *r = e->r;
	char text[ADDR_TEXT_MAX];

	if (looping == e->looping)
		return;
	e->looping = looping;
	r->loops += looping;
	addr_text(&e->addr, text);
	if (looping)
		log_warn("dns",
			"an upstream sends our queries back to us (it may read the resolv.conf "
			"that "
			"names us): it is out of use, and tried again every 5 s address=%s",
			text);
	else
		log_info("dns", "an upstream no longer sends our queries back to us address=%s",
			text);
	upstreams_adopt(r);
}

static void
on_checked(void *arg, int status, const uint8_t *answer, size_t len)
{
	struct entry *e = arg;
	struct upstreams *r = e->r;
	bool seen;

	(void)answer;
	(void)len;
	if (status == -ECANCELED)
		return;
	resolve_free(&e->resolve);
	/* No answer does not prove that the loop is gone. */
	seen = r->config.seen(r->config.arg, e->mark) || (e->looping && status < 0);
	if (seen)
		e->check_ms = loop_now_ms(r->config.loop) + LOOPING_MS;
	timer_start(r->timer, 0, 0);
	upstreams_judge(e, seen);
}

static uint64_t
again_ms(const struct entry *e)
{
	static const uint64_t soon_ms[] = {0, 2000, 8000};

	return e->checks < ARRAY_LEN(soon_ms) ? soon_ms[e->checks] : AGAIN_MS;
}

static void
upstreams_check_one(struct entry *e)
{
	struct upstreams *r = e->r;
	const struct resolve_config c = {
		.servers = &e->addr,
		.n_servers = 1,
		.timeout_ms = TRY_MS,
		.tries = TRIES,
		.mark = r->config.mark,
		.every_rcode = true,
	};
	uint8_t query[LOOP_PROBE_QUERY_BYTES];
	struct err err;
	uint32_t salt;

	e->checks++;
	e->check_ms = loop_now_ms(r->config.loop) + again_ms(e);
	if (e->resolve != NULL || resolve_new(&e->resolve, r->config.loop, &c, &err) < 0)
		return;
	random_bytes(&e->mark, sizeof e->mark);
	random_bytes(&salt, sizeof salt);
	e->mark |= 1; /* 0 means none */
	loop_probe_build(query, e->mark, salt);
	resolve_query(e->resolve, query, sizeof query, on_checked, e);
}

static void
check_due(void *arg)
{
	struct upstreams *r = arg;
	uint64_t now = loop_now_ms(r->config.loop), next = now + AGAIN_MS;

	for (size_t i = 0; i < r->n; i++) {
		if (r->entries[i]->check_ms <= now)
			upstreams_check_one(r->entries[i]);
		next = MIN(next, r->entries[i]->check_ms);
	}
	if (r->n > 0)
		timer_start(r->timer, next > now ? next - now : 1, 0);
}

void
upstreams_check(struct upstreams *r)
{
	r->checking = true;
	for (size_t i = 0; i < r->n; i++)
		r->entries[i]->check_ms = r->entries[i]->checks = 0;
	check_due(r);
}

/* --- entry points --------------------------------------------------------------------------- */

void
upstreams_new(struct upstreams **out, const struct upstreams_config *config)
{
	struct upstreams *r = xcalloc(1, sizeof *r);

	r->config = *config;
	r->timer = timer_new(config->loop, check_due, r);
	*out = r;
}

void
upstreams_free(struct upstreams **out)
{
	struct upstreams *r = take_ptr(out);

	if (r == NULL)
		return;
	for (size_t i = 0; i < r->n; i++)
		entry_free(&r->entries[i]);
	timer_free(&r->timer);
	free(r);
}

static bool
upstreams_same(const struct addr *a, const struct addr *b)
{
	return a->len == b->len && memcmp(&a->sa, &b->sa, a->len) == 0;
}

static bool
upstreams_has(const struct upstreams *r, const struct addr *a)
{
	for (size_t i = 0; i < r->n; i++) {
		if (upstreams_same(&r->entries[i]->addr, a))
			return true;
	}
	return false;
}

static struct entry *
take_entry(struct entry **from, size_t n, const struct addr *a)
{
	for (size_t i = 0; i < n; i++) {
		if (from[i] != NULL && upstreams_same(&from[i]->addr, a))
			return take_ptr(&from[i]);
	}
	return NULL;
}

void
upstreams_use(struct upstreams *r, const struct addr *addrs, size_t n)
{
	struct entry *old[FORWARD_UPSTREAMS_MAX];
	size_t n_old = r->n;

	memcpy(old, r->entries, sizeof old);
	r->n = 0;
	for (size_t i = 0; i < n && r->n < FORWARD_UPSTREAMS_MAX; i++) {
		struct entry *e;

		if (upstreams_has(r, &addrs[i]))
			continue;
		e = take_entry(old, n_old, &addrs[i]);
		if (e == NULL) {
			e = xcalloc(1, sizeof *e);
			e->r = r;
			e->addr = addrs[i];
		}
		r->entries[r->n++] = e;
	}
	for (size_t i = 0; i < n_old; i++) {
		if (old[i] != NULL)
			entry_free(&old[i]);
	}
	upstreams_adopt(r);
	if (r->checking)
		check_due(r);
}

size_t
upstreams_in_use(const struct upstreams *r, const struct addr **addrs)
{
	*addrs = r->known;
	return r->n_in_use;
}

size_t
upstreams_known(const struct upstreams *r, const struct addr **addrs)
{
	*addrs = r->known;
	return r->n;
}

/* --- metrics and state ---------------------------------------------------------------------- */

enum state { UNKNOWN, ALIVE, DEAD, LOOP };

/* Totals over all workers. */
struct sums {
	enum state state;
	uint64_t queries, failures, timeouts, latency_us;
	/* errors of this rcode, and nothing else since the last good answer to any worker */
	uint64_t errors, errors_rcode, errors_names, good_ms;
	bool garbage; /* of a dead one: it sends what answers no query */
};

/* A name that fails everywhere is no fault of the upstream, nor are a few. */
enum { ERRORS_LEAST = 20, ERRORS_NAMES_LEAST = 5, ERRORS_STALE_MS = 10 * 60 * 1000 };

static const struct upstream_count *
upstreams_count(const struct upstreams *r, size_t worker, uint64_t key)
{
	const struct forward_counters *c = r->config.counters(r->config.arg, worker);

	for (size_t i = 0; i < FORWARD_UPSTREAMS_MAX; i++) {
		if (c->up[i].key == key)
			return &c->up[i];
	}
	return NULL;
}

static void
add_worker(struct sums *to, const struct upstream_count *u, unsigned *n)
{
	uint64_t latency_us = u->latency_us, state = u->state;

	to->queries += u->queries;
	to->failures += u->failures;
	to->timeouts += u->timeouts;
	to->good_ms = MAX(to->good_ms, u->good_ms);
	to->garbage |= u->garbage != 0;
	if (latency_us > 0)
		to->latency_us = (to->latency_us * *n + latency_us) / (*n + 1), ++*n;
	if (state == UPSTREAM_ALIVE)
		to->state = ALIVE;
	else if (state == UPSTREAM_DEAD && to->state == UNKNOWN)
		to->state = DEAD;
}

/* After add_worker of all: an answer to another worker may be good and newer. */
static void
add_errors(struct sums *to, const struct upstream_count *u, uint64_t now)
{
	uint64_t errors = u->errors, rcode = u->errors_rcode;

	if (errors == 0 || u->errors_since_ms < to->good_ms ||
		now > u->errors_ms + ERRORS_STALE_MS ||
		(to->errors > 0 && rcode != to->errors_rcode))
		return;
	to->errors += errors;
	to->errors_rcode = rcode;
	to->errors_names |= u->errors_names;
}

/* "" unless it is errors, or no DNS messages at all, that this upstream answers. */
static const char *
upstreams_errors(const struct sums *s)
{
	static const char *const names[UPSTREAM_GARBAGE + 1] = {[DNS_FORMERR] = "FORMERR",
		[DNS_SERVFAIL] = "SERVFAIL",
		[DNS_NOTIMP] = "NOTIMP",
		[DNS_REFUSED] = "REFUSED",
		[UPSTREAM_GARBAGE] = "garbage"};

	if (s->state == DEAD && s->garbage)
		return names[UPSTREAM_GARBAGE];
	if (s->state != ALIVE || s->errors < ERRORS_LEAST ||
		__builtin_popcountll(s->errors_names) < ERRORS_NAMES_LEAST)
		return "";
	return names[s->errors_rcode] != NULL ? names[s->errors_rcode] : "errors";
}

static struct sums
upstreams_sum(const struct upstreams *r, const struct entry *e)
{
	struct sums s = {.state = UNKNOWN};
	uint64_t key = upstream_key(&e->addr);
	const struct upstream_count *u;
	unsigned n = 0;

	for (size_t i = 0; i < r->config.n_workers; i++) {
		if ((u = upstreams_count(r, i, key)) != NULL)
			add_worker(&s, u, &n);
	}
	for (size_t i = 0; i < r->config.n_workers; i++) {
		if ((u = upstreams_count(r, i, key)) != NULL)
			add_errors(&s, u, loop_now_ms(r->config.loop));
	}
	if (e->looping)
		s.state = LOOP;
	return s;
}

void
upstreams_metrics(const struct upstreams *r, struct metrics *m)
{
	static const struct figure figures[] = {
		FIGURE(struct sums, queries, "edgeway_dns_upstream_queries_total", NULL,
			"Queries sent to this upstream.", NULL),
		FIGURE(struct sums, failures, "edgeway_dns_upstream_failures_total", NULL,
			"SERVFAIL, REFUSED and the like from it, and what could not be sent.",
			NULL),
		FIGURE(struct sums, timeouts, "edgeway_dns_upstream_timeouts_total", NULL,
			"Queries that it never answered.", NULL),
	};
	struct sums sums[FORWARD_UPSTREAMS_MAX];
	char label[FORWARD_UPSTREAMS_MAX][ADDR_TEXT_MAX + 16], text[ADDR_TEXT_MAX];
	const char *labels[FORWARD_UPSTREAMS_MAX];
	const void *of[FORWARD_UPSTREAMS_MAX];

	for (size_t i = 0; i < r->n; i++) {
		sums[i] = upstreams_sum(r, r->entries[i]);
		of[i] = &sums[i];
		labels[i] = metric_label(label[i], sizeof label[i], "upstream",
			addr_text(&r->entries[i]->addr, text));
	}
	figures_metrics_of(FIGURES(figures), of, labels, r->n, m);
	for (size_t i = 0; i < r->n; i++)
		metric_gauge(m, "edgeway_dns_upstream_latency_seconds",
			"Moving average of the time to its answers.", labels[i],
			(double)sums[i].latency_us / 1e6);
	for (size_t i = 0; i < r->n; i++)
		metric_gauge(m, "edgeway_dns_upstream_alive", "1 while it answers.", labels[i],
			sums[i].state == ALIVE);
	for (size_t i = 0; i < r->n; i++)
		metric_gauge(m, "edgeway_dns_upstream_looping",
			"1 while it sends our queries back to us and is out of use.", labels[i],
			sums[i].state == LOOP);
	metric_counter(m, "edgeway_dns_upstream_loops_total",
		"Times that an upstream was found to send our queries back to us.", NULL, r->loops);
}

void
upstreams_state(const struct upstreams *r, struct buf *out)
{
	static const char *const states[] = {"unknown", "alive", "dead", "loop"};
	char text[ADDR_TEXT_MAX];

	buf_adds(out, "\"upstreams\":[");
	for (size_t i = 0; i < r->n_in_use; i++)
		buf_printf(out, "%s\"%s\"", i > 0 ? "," : "", addr_text(&r->known[i], text));
	buf_adds(out, "],\"forwarding\":[");
	for (size_t i = 0; i < r->n; i++) {
		struct sums s = upstreams_sum(r, r->entries[i]);

		buf_printf(out,
			"%s{\"address\":\"%s\",\"state\":\"%s\",\"queries\":%llu,\"failures\":%llu,"
			"\"timeouts\":%llu,\"latency_ms\":%.1f,\"errors\":\"%s\","
			"\"errors_in_a_row\":%llu}",
			i > 0 ? "," : "", addr_text(&r->entries[i]->addr, text), states[s.state],
			(unsigned long long)s.queries, (unsigned long long)s.failures,
			(unsigned long long)s.timeouts, (double)s.latency_us / 1000,
			upstreams_errors(&s), (unsigned long long)s.errors);
	}
	buf_adds(out, "]");
}
