#include "dns/forward.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/resolve.h"
#include "dns/health.h"
#include "dns/rewrite.h"

enum {
	SECOND_MS = 80, /* silence after which the next upstream is asked too */
	TOTAL_MS = 4000,
	DEAD_TOTAL_MS = 1800, /* when all upstreams are dead */
	RECHECK_MS = 200,
	TRY_MS = 600, /* per try of one upstream, doubled for each further one */
	TRIES = 3,
	FOLDS_MAX =
		8, /* answers in a row without our case: it is asked in lower case from then on */
};

struct upstream {
	struct resolve *resolve;
	struct addr addr;
	struct health health;
};

struct question;

/* One upstream being asked one question; outlives the question when another was faster. */
struct ask {
	struct ask *next; /* of the same question */
	struct question *question; /* NULL: settled */
	struct forward *f;
	unsigned upstream, epoch;
	uint64_t start_ms;
	bool plain; /* in lower case: any case of the answer will do */
	size_t len;
	uint8_t sent[];
};

struct question {
	struct question *prev, *next;
	struct forward *f;
	forward_fn *fn;
	void *arg;
	struct timer *timer;
	uint64_t deadline_ms;
	struct ask *asks;
	unsigned asked; /* bit per upstream */
	unsigned waiting; /* asks without an outcome */
	size_t len;
	uint8_t bytes[];
};

struct forward {
	struct loop *loop;
	uint32_t mark;
	struct upstream up[FORWARD_UPSTREAMS_MAX];
	size_t n;
	unsigned epoch; /* of the upstreams */
	struct question *questions;
	size_t n_open;
	struct forward_counters *count;
};

static void
add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

void
forward_new(
	struct forward **out, struct loop *loop, uint32_t mark, struct forward_counters *counters)
{
	struct forward *f = xcalloc(1, sizeof *f);

	f->loop = loop;
	f->mark = mark;
	f->count = counters;
	*out = f;
}

bool
forward_hopeful(const struct forward *f)
{
	uint64_t now = loop_now_ms(f->loop);

	for (size_t i = 0; i < f->n && f->n_open < FORWARD_OPEN_MAX; i++) {
		if (!health_dead(&f->up[i].health, now))
			return true;
	}
	return false;
}

/* --- the life of a question ---------------------------------------------- */

/* What is still being asked ends unheard. */
static void
let_go(struct question *q)
{
	while (q->asks != NULL) {
		struct ask *a = q->asks;

		q->asks = a->next;
		a->question = NULL;
	}
	q->waiting = 0;
	q->asked = 0;
}

static void
settle(struct question *q, const uint8_t *answer, size_t len)
{
	struct forward *f = q->f;

	let_go(q);
	timer_free(&q->timer);
	if (q->prev != NULL)
		q->prev->next = q->next;
	else
		f->questions = q->next;
	if (q->next != NULL)
		q->next->prev = q->prev;
	f->n_open--;
	add(&f->count->open, (uint64_t)-1);
	if (len == 0)
		add(&f->count->failed, 1);
	q->fn(q->arg, answer, len);
	free(q);
}

static void on_upstream(void *arg, int status, const uint8_t *answer, size_t len);

static void
ask_one(struct question *q, unsigned i, bool plain)
{
	struct forward *f = q->f;
	struct ask *a = xcalloc(1, sizeof *a + q->len);
	uint8_t coins[DNS_COINS] = {0};

	a->plain = plain || f->up[i].health.folds >= HEALTH_FOLDS_MAX;
	if (!a->plain)
		random_bytes(coins, sizeof coins);
	a->len = q->len;
	memcpy(a->sent, q->bytes, q->len);
	dns_forward_mix(a->sent, a->len, coins);
	a->question = q;
	a->f = f;
	a->upstream = i;
	a->epoch = f->epoch;
	a->start_ms = loop_now_ms(f->loop);
	a->next = q->asks;
	q->asks = a;
	if (q->asked != 0 && !plain)
		add(&f->count->seconds, 1);
	q->asked |= 1u << i;
	q->waiting++;
	health_asked(&f->up[i].health, a->start_ms);
	resolve_query(f->up[i].resolve, a->sent, a->len, on_upstream, a);
}

/* The next that was not asked: good ones in their order, then those that lost too often. */
static int
next_upstream(const struct question *q)
{
	const struct forward *f = q->f;

	for (unsigned lost = 0; lost < 2; lost++) {
		for (unsigned i = 0; i < f->n; i++) {
			if (!(q->asked & 1u << i) && health_lost(&f->up[i].health) == (lost == 1))
				return (int)i;
		}
	}
	return -1;
}

/* When everyone was asked: until those asked might be dead, then until they are or the deadline. */
static uint64_t
patience_ms(const struct question *q, uint64_t now)
{
	uint64_t left = q->deadline_ms > now ? q->deadline_ms - now : 0;
	uint64_t early = TOTAL_MS - DEAD_TOTAL_MS;

	return left > early ? left - early : MIN(left, (uint64_t)RECHECK_MS);
}

/* One more upstream, or wait for those asked. */
static void
go_on(struct question *q)
{
	uint64_t now = loop_now_ms(q->f->loop);
	int i = next_upstream(q);

	if (i >= 0)
		ask_one(q, (unsigned)i, false);
	if (next_upstream(q) >= 0)
		timer_start(q->timer, MIN((uint64_t)SECOND_MS, patience_ms(q, now)), 0);
	else if (q->waiting > 0)
		timer_start(q->timer, patience_ms(q, now), 0);
	else
		settle(q, NULL, 0);
}

/* Whether all that might still answer are dead. */
static bool
in_vain(const struct question *q, uint64_t now)
{
	for (const struct ask *a = q->asks; a != NULL; a = a->next) {
		if (!health_dead(&q->f->up[a->upstream].health, now))
			return false;
	}
	return next_upstream(q) < 0;
}

static void
on_timer(void *arg)
{
	struct question *q = arg;

	uint64_t now = loop_now_ms(q->f->loop);
	bool late = now + (TOTAL_MS - DEAD_TOTAL_MS) >= q->deadline_ms;

	if (now >= q->deadline_ms || (late && in_vain(q, now)))
		settle(q, NULL, 0);
	else
		go_on(q);
}

/* One that lost too often gets a real query from time to time: if it is back, it answers quickly.
 */
static void
probe(struct question *q)
{
	struct forward *f = q->f;
	uint64_t now = loop_now_ms(f->loop);

	for (unsigned i = 0; i < f->n; i++) {
		if (!(q->asked & 1u << i) && health_probe(&f->up[i].health, now))
			ask_one(q, i, false);
	}
}

static void
start(struct question *q)
{
	if (q->f->n == 0) {
		settle(q, NULL, 0);
		return;
	}
	go_on(q);
	probe(q);
}

/* --- answers ------------------------------------------------------------- */

static bool
good(const uint8_t *answer, size_t len)
{
	unsigned rcode = len >= DNS_HEADER ? answer[3] & 15u : DNS_SERVFAIL;

	return rcode != DNS_SERVFAIL && rcode != DNS_REFUSED && rcode != DNS_NOTIMP &&
		rcode != DNS_FORMERR && dns_forward_sound(answer, len);
}

static void
unlink_ask(struct question *q, struct ask *a)
{
	struct ask **at = &q->asks;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	q->waiting--;
}

/* `winner` gave the answer; the others that were asked before or meanwhile did not. */
static void
keep_score(struct forward *f, unsigned asked, unsigned winner)
{
	uint64_t now = loop_now_ms(f->loop);
	char text[ADDR_TEXT_MAX];

	if (health_lost(&f->up[winner].health))
		log_limited(LOG_LEVEL_INFO, 6, "dns", "upstream answers again address=%s",
			addr_text(&f->up[winner].addr, text));
	f->up[winner].health.lost = 0;
	for (unsigned i = 0; i < f->n; i++) {
		struct upstream *u = &f->up[i];

		if (i == winner || !(asked & 1u << i) || !health_beaten(&u->health, now))
			continue;
		log_limited(LOG_LEVEL_WARN, 6, "dns",
			"upstream does not answer, others are asked first address=%s",
			addr_text(&u->addr, text));
	}
}

/* Whether it kept the case that we sent. One that never does is no longer asked to. */
static bool
kept_case(const struct ask *a, const uint8_t *answer, size_t len)
{
	struct upstream *u = &a->f->up[a->upstream];
	char text[ADDR_TEXT_MAX];

	if (a->plain)
		return true;
	if (dns_forward_same(answer, len, a->sent, a->len)) {
		u->health.folds = 0;
		return true;
	}
	add(&a->f->count->folded, 1);
	if (++u->health.folds == HEALTH_FOLDS_MAX)
		log_limited(LOG_LEVEL_INFO, 6, "dns",
			"upstream does not keep the case of names, it is asked in lower case "
			"address=%s",
			addr_text(&u->addr, text));
	return false;
}

enum heard { HEARD_NOTHING, HEARD_BAD, HEARD_FOLDED, HEARD_GOOD };

static enum heard
judge(const struct ask *a, int status, const uint8_t *answer, size_t len)
{
	struct forward *f = a->f;
	struct upstream *u = &f->up[a->upstream];

	if (status == -ECANCELED || a->epoch != f->epoch)
		return HEARD_NOTHING;
	if (status < 0) {
		if (status == -ECONNREFUSED)
			health_unreachable(&u->health);
		return HEARD_NOTHING;
	}
	health_heard(&u->health, loop_now_ms(f->loop) - a->start_ms);
	if (!kept_case(a, answer, len))
		return HEARD_FOLDED;
	return good(answer, len) ? HEARD_GOOD : HEARD_BAD;
}

/* One that others stood in for is back when it answers as fast as the others wait. */
static void
forgive(const struct ask *a)
{
	if (loop_now_ms(a->f->loop) - a->start_ms < SECOND_MS)
		a->f->up[a->upstream].health.lost = 0;
}

static void
on_upstream(void *arg, int status, const uint8_t *answer, size_t len)
{
	auto_free struct ask *a = arg;
	struct forward *f = a->f;
	struct question *q = a->question;
	enum heard heard = judge(a, status, answer, len);

	if (q != NULL)
		unlink_ask(q, a);
	if (q == NULL || status == -ECANCELED) {
		if (heard == HEARD_GOOD)
			forgive(a);
	} else if (heard == HEARD_GOOD) {
		/* A probe that runs beside the first upstream is no defeat of it. */
		keep_score(f, health_lost(&f->up[a->upstream].health) ? 0 : q->asked, a->upstream);
		settle(q, answer, len);
	} else if (heard == HEARD_FOLDED) {
		ask_one(q, a->upstream, true);
	} else if (next_upstream(q) >= 0 || q->waiting == 0) {
		go_on(q);
	}
}

/* --- the door ------------------------------------------------------------ */

int
forward_ask(struct forward *f, const uint8_t *query, size_t len, forward_fn *fn, void *arg)
{
	struct question *q;

	if (f->n == 0 || f->n_open >= FORWARD_OPEN_MAX) {
		add(&f->count->refused, 1);
		return f->n == 0 ? -ENETUNREACH : -EBUSY;
	}
	q = xcalloc(1, sizeof *q + len);
	q->f = f;
	q->fn = fn;
	q->arg = arg;
	q->len = len;
	memcpy(q->bytes, query, len);
	q->timer = timer_new(f->loop, on_timer, q);
	q->deadline_ms = loop_now_ms(f->loop) + TOTAL_MS;
	q->next = f->questions;
	if (q->next != NULL)
		q->next->prev = q;
	f->questions = q;
	f->n_open++;
	add(&f->count->open, 1);
	add(&f->count->asked, 1);
	start(q);
	return 0;
}

static bool
same_upstreams(const struct forward *f, const struct addr *upstreams, size_t n)
{
	for (size_t i = 0; i < n && n == f->n; i++) {
		if (f->up[i].addr.len != upstreams[i].len ||
			memcmp(&f->up[i].addr.sa, &upstreams[i].sa, upstreams[i].len) != 0)
			return false;
	}
	return n == f->n;
}

static void
drop_upstreams(struct forward *f)
{
	f->epoch++;
	for (size_t i = 0; i < f->n; i++)
		resolve_free(&f->up[i].resolve);
	f->n = 0;
}

bool
forward_use(struct forward *f, const struct addr *upstreams, size_t n)
{
	n = MIN(n, (size_t)FORWARD_UPSTREAMS_MAX);
	if (same_upstreams(f, upstreams, n))
		return false;
	for (struct question *q = f->questions; q != NULL; q = q->next)
		let_go(q);
	drop_upstreams(f);
	for (size_t i = 0; i < n; i++) {
		struct upstream *u = &f->up[f->n];
		struct resolve_config c = {
			.servers = &upstreams[i],
			.n_servers = 1,
			.timeout_ms = TRY_MS,
			.tries = TRIES,
			.mark = f->mark,
			.every_rcode = true,
		};
		struct err err;

		*u = (struct upstream){.addr = upstreams[i]};
		if (resolve_new(&u->resolve, f->loop, &c, &err) == 0)
			f->n++;
		else
			log_error("dns", "upstream left out: %s", err.text);
	}
	for (struct question *q = f->questions, *next; q != NULL; q = next) {
		next = q->next;
		start(q);
	}
	return true;
}

void
forward_free(struct forward **out)
{
	struct forward *f = take_ptr(out);

	if (f == NULL)
		return;
	while (f->questions != NULL)
		settle(f->questions, NULL, 0);
	drop_upstreams(f);
	free(f);
}
