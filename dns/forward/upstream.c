#include "dns/forward/upstream.h"

#include <errno.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "dns/answer/message.h"

enum {
	TRY_MS = 600, /* per try, doubled for each further one */
	TRIES = 4, /* 9 s in all: an answer after the clients have gone still fills the cache */
	NO_TCP_MS = 10 * 60 * 1000,
	PULSE_GAP_MS = 1000,
	PULSE_DEAD_MS = 2000,
	PULSE_IDLE_MS = 30000,
	GARBAGE_MS = 10 * 1000, /* a dead one is asked every PULSE_DEAD_MS */
};

/* NS of the root, RD not set, with an OPT that c-ares may remove. */
static const uint8_t pulse_query[] = {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, /* header */
	0, 0, 2, 0, 1, /* question */
	0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0};

struct pulse {
	struct upstream *u;
	uint64_t start_ms;
};

static void
upstream_add(_Atomic uint64_t *c)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + 1, memory_order_relaxed);
}

uint64_t
upstream_key(const struct addr *a)
{
	return hash64(&a->sa, a->len, 0) | 1;
}

bool
upstream_is(const struct upstream *u, const struct addr *a)
{
	return u->addr.len == a->len && memcmp(&u->addr.sa, &a->sa, a->len) == 0;
}

static void
show_state(struct upstream *u)
{
	uint64_t now = loop_now_ms(u->loop);
	uint64_t state = health_dead(&u->health, now) ? UPSTREAM_DEAD
		: health_alive(&u->health, now)       ? UPSTREAM_ALIVE
						      : UPSTREAM_UNKNOWN;
	uint64_t before = atomic_load_explicit(&u->count->state, memory_order_relaxed);
	uint64_t stray_ms = resolve_stray_ms(u->resolve);
	bool garbage =
		state == UPSTREAM_DEAD && stray_ms > u->heard_ms && now < stray_ms + GARBAGE_MS;
	char text[ADDR_TEXT_MAX];

	if (garbage != atomic_load_explicit(&u->count->garbage, memory_order_relaxed))
		atomic_store_explicit(&u->count->garbage, garbage, memory_order_relaxed);
	if (state == before)
		return;
	atomic_store_explicit(&u->count->state, state, memory_order_relaxed);
	if (state == UPSTREAM_DEAD)
		log_limited(LOG_LEVEL_WARN, 6, "dns", "upstream %s address=%s",
			garbage ? "answers what is no answer to any query" : "is silent",
			addr_text(&u->addr, text));
	else if (before == UPSTREAM_DEAD)
		log_limited(LOG_LEVEL_INFO, 6, "dns", "upstream is back address=%s",
			addr_text(&u->addr, text));
}

int
upstream_new(struct upstream **out, struct loop *loop, const struct addr *addr, uint32_t mark,
	struct upstream_count *count)
{
	struct upstream *u = xcalloc(1, sizeof *u);
	const struct resolve_config c = {
		.servers = addr,
		.n_servers = 1,
		.timeout_ms = TRY_MS,
		.tries = TRIES,
		.mark = mark,
		.every_rcode = true,
	};
	struct err err;
	int rc = resolve_new(&u->resolve, loop, &c, &err);

	if (rc < 0) {
		log_error("dns", "upstream left out: %s", err.text);
		free(u);
		*out = NULL;
		return rc;
	}
	u->loop = loop;
	u->mark = mark;
	u->addr = *addr;
	u->count = count;
	atomic_store_explicit(&count->state, UPSTREAM_UNKNOWN, memory_order_relaxed);
	*out = u;
	return 0;
}

void
upstream_free(struct upstream **out)
{
	struct upstream *u = take_ptr(out);

	if (u == NULL)
		return;
	resolve_free(&u->resolve);
	resolve_free(&u->tcp);
	free(u);
}

static struct resolve *
upstream_tcp(struct upstream *u)
{
	const struct resolve_config c = {
		.servers = &u->addr,
		.n_servers = 1,
		.timeout_ms = TRY_MS,
		.tries = 1,
		.mark = u->mark,
		.every_rcode = true,
		.tcp = true,
	};

	if (u->tcp == NULL)
		resolve_new(&u->tcp, u->loop, &c, NULL);
	return u->tcp;
}

void
upstream_ask(struct upstream *u, enum upstream_way way, const uint8_t *query, size_t len,
	resolve_answer_fn *fn, void *arg)
{
	health_asked(&u->health, loop_now_ms(u->loop));
	upstream_add(&u->count->queries);
	resolve_query(way == UPSTREAM_TCP ? u->tcp : u->resolve, query, len, fn, arg);
}

bool
upstream_has_tcp(struct upstream *u)
{
	return loop_now_ms(u->loop) >= u->no_tcp_until_ms && upstream_tcp(u) != NULL;
}

void
upstream_no_tcp(struct upstream *u)
{
	u->no_tcp_until_ms = loop_now_ms(u->loop) + NO_TCP_MS;
}

static void
note_latency(struct upstream *u, uint64_t took_ms)
{
	uint64_t before = atomic_load_explicit(&u->count->latency_us, memory_order_relaxed);
	uint64_t took_us = took_ms * 1000;

	atomic_store_explicit(&u->count->latency_us,
		before == 0 ? took_us : before - before / 8 + took_us / 8, memory_order_relaxed);
}

void
upstream_heard(struct upstream *u, uint64_t start_ms, bool good)
{
	u->heard_ms = loop_now_ms(u->loop);
	health_heard(&u->health, u->heard_ms - start_ms);
	note_latency(u, u->heard_ms - start_ms);
	if (!good)
		upstream_add(&u->count->failures);
	show_state(u);
}

void
upstream_judge(struct upstream *u, const uint8_t *query, size_t len, unsigned rcode)
{
	struct upstream_count *c = u->count;
	uint64_t now = loop_now_ms(u->loop), hash;
	size_t end;

	if (rcode == DNS_NOERROR || rcode == DNS_NXDOMAIN) {
		atomic_store_explicit(&c->good_ms, now, memory_order_relaxed);
		if (atomic_load_explicit(&c->errors, memory_order_relaxed) != 0)
			c->errors = 0;
		return;
	}
	end = dns_name_skip(query, len, DNS_HEADER);
	if (end == 0 || end + 2 > len || dns_get16(query + end) != DNS_A)
		return;
	if (c->errors == 0 || c->errors_rcode != rcode) {
		c->errors = c->errors_names = 0;
		c->errors_rcode = rcode;
		c->errors_since_ms = now;
	}
	hash = hash64_nocase((const char *)query + DNS_HEADER, end - DNS_HEADER, 0);
	c->errors_names |= 1ull << (hash & 63);
	c->errors_ms = now;
	upstream_add(&c->errors);
}

void
upstream_failed(struct upstream *u, int status)
{
	if (status == -ECONNREFUSED)
		health_unreachable(&u->health);
	if (status == -ETIMEDOUT)
		upstream_add(&u->count->timeouts);
	else
		upstream_add(&u->count->failures);
	show_state(u);
}

/* --- pulse ---------------------------------------------------------------------------------- */

static void
on_pulse(void *arg, int status, const uint8_t *answer, size_t len)
{
	auto_free struct pulse *p = arg;
	struct upstream *u = p->u;

	(void)answer;
	(void)len;
	if (status == -ECANCELED)
		return;
	if (status == 0) {
		u->heard_ms = loop_now_ms(u->loop);
		health_pulse(&u->health, u->heard_ms - p->start_ms);
	} else if (status == -ECONNREFUSED) {
		health_unreachable(&u->health);
	}
	show_state(u);
}

static bool
upstream_due(const struct upstream *u, uint64_t now)
{
	if (u->pulse_ms == 0)
		return true;
	if (u->open > 0)
		return now >= u->heard_ms + UPSTREAM_BEAT_MS && now >= u->pulse_ms + PULSE_GAP_MS;
	if (!health_alive(&u->health, now))
		return now >= u->pulse_ms + PULSE_DEAD_MS;
	return now >= u->pulse_ms + PULSE_IDLE_MS;
}

uint64_t
upstream_beat(struct upstream *u)
{
	uint64_t now = loop_now_ms(u->loop);

	show_state(u);
	if (upstream_due(u, now)) {
		struct pulse *p = xcalloc(1, sizeof *p);

		p->u = u;
		p->start_ms = u->pulse_ms = now;
		health_asked(&u->health, now);
		resolve_query(u->resolve, pulse_query, sizeof pulse_query, on_pulse, p);
	}
	if (u->open == 0 && health_dead(&u->health, now))
		return u->pulse_ms + PULSE_DEAD_MS - now;
	if (u->open > 0 || !health_alive(&u->health, now))
		return UPSTREAM_BEAT_MS;
	return PULSE_IDLE_MS;
}
