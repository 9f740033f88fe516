#include "dns/forward/forward.h"

#include <errno.h>
#include <string.h>

#include "base/core/histogram.h"
#include "base/core/log.h"
#include "dns/forward/forward_private.h"
#include "dns/forward/loop_probe.h"
#include "dns/forward/rewrite.h"

enum {
	SECOND_MS = 60, /* silence after which the next upstream is asked too */
	TOTAL_MS = 4500,
	DEAD_TOTAL_MS = 1800, /* when none of them is known to be alive */
	BAD_TOTAL_MS = 300, /* when the live ones answered with an error, and the others are dead */
	RECHECK_MS = 200,
	UPSTREAM_OPEN_MAX = 2 * FORWARD_OPEN_MAX,
	DEAD_OPEN_MAX = 64, /* of a dead upstream: enough to notice its return */
};

static void
forward_add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

/* --- pulse ---------------------------------------------------------------------------------- */

void
forward_beat_within(struct forward *f, uint64_t ms)
{
	uint64_t at = loop_now_ms(f->loop) + ms;

	if (timer_active(f->beat) && f->beat_at_ms <= at)
		return;
	f->beat_at_ms = at;
	timer_start(f->beat, ms, 0);
}

static void
on_beat(void *arg)
{
	struct forward *f = arg;

	for (size_t i = 0; i < f->n; i++)
		forward_beat_within(f, upstream_beat(f->up[i]));
}

void
forward_new(
	struct forward **out, struct loop *loop, uint32_t mark, struct forward_counters *counters)
{
	struct forward *f = xcalloc(1, sizeof *f);

	f->loop = loop;
	f->mark = mark;
	f->count = counters;
	f->beat = timer_new(loop, on_beat, f);
	*out = f;
}

void
forward_on_late(struct forward *f, forward_late_fn *fn, void *arg)
{
	f->late = fn;
	f->late_arg = arg;
}

bool
forward_hopeful(const struct forward *f)
{
	uint64_t now = loop_now_ms(f->loop);

	for (size_t i = 0; i < f->n && f->n_open < FORWARD_OPEN_MAX; i++) {
		if (!health_dead(&f->up[i]->health, now))
			return true;
	}
	return false;
}

/* A silent upstream must not collect queries that it will never answer. */
static bool
forward_askable(const struct upstream *u, uint64_t now)
{
	return u->open < (health_dead(&u->health, now) ? DEAD_OPEN_MAX : UPSTREAM_OPEN_MAX);
}

/* --- the life of a question ----------------------------------------------------------------- */

/* Detaches the queries still pending from the question. */
static void
let_go(struct question *q, bool answered)
{
	while (q->asks != NULL) {
		struct ask *a = q->asks;

		q->asks = a->next;
		a->question = NULL;
		a->wanted = !answered;
	}
	q->waiting = 0;
}

static void
forward_settle(struct question *q, const uint8_t *answer, size_t len)
{
	struct forward *f = q->f;
	uint64_t took_ms;

	let_go(q, len > 0);
	timer_free(&q->timer);
	if (q->prev != NULL)
		q->prev->next = q->next;
	else
		f->questions = q->next;
	if (q->next != NULL)
		q->next->prev = q->prev;
	f->n_open--;
	forward_add(&f->count->open, (uint64_t)-1);
	if (len == 0)
		forward_add(&f->count->failed, 1);
	took_ms = loop_now_ms(f->loop) - q->start_ms;
	forward_add(&f->count->took[histogram_bucket(
			    took_ms * 1000, FORWARD_FIRST_US, FORWARD_BUCKETS)],
		1);
	forward_add(&f->count->took_ms, took_ms);
	q->fn(q->arg, answer, len);
	free(q);
}

static void on_upstream(void *arg, int status, const uint8_t *answer, size_t len);

static void
ask_one(struct question *q, unsigned i, enum ask_how how)
{
	struct forward *f = q->f;
	struct ask *a = xcalloc(1, sizeof *a + q->len);
	uint8_t case_bits[DNS_COINS] = {0};

	a->u = f->up[i];
	a->how = how == ASK_MIXED && a->u->health.folds >= HEALTH_FOLDS_MAX ? ASK_PLAIN : how;
	if (a->how != ASK_PLAIN)
		random_bytes(case_bits, sizeof case_bits);
	a->len = q->len;
	memcpy(a->sent, q->bytes, q->len);
	dns_forward_mix(a->sent, a->len, case_bits);
	a->question = q;
	a->f = f;
	a->start_ms = loop_now_ms(f->loop);
	a->next = q->asks;
	q->asks = a;
	q->asked |= 1u << i;
	q->waiting++;
	if (a->u->open++ == 0)
		forward_beat_within(f, UPSTREAM_BEAT_MS);
	upstream_ask(a->u, a->how == ASK_TCP ? UPSTREAM_TCP : UPSTREAM_UDP, a->sent, a->len,
		on_upstream, a);
}

/* The next upstream not yet asked: good ones in their order, then the lost ones. */
static int
next_upstream(const struct question *q)
{
	const struct forward *f = q->f;
	uint64_t now = loop_now_ms(f->loop);

	for (unsigned lost = 0; lost < 2; lost++) {
		for (unsigned i = 0; i < f->n; i++) {
			const struct upstream *u = f->up[i];

			if (!(q->asked & 1u << i) && health_lost(&u->health) == (lost == 1) &&
				forward_askable(u, now))
				return (int)i;
		}
	}
	return -1;
}

/* How long to wait once all upstreams were asked. */
static uint64_t
patience_ms(const struct question *q, uint64_t now)
{
	uint64_t age = now - q->start_ms;

	if (age < DEAD_TOTAL_MS && !q->bad)
		return DEAD_TOTAL_MS - age;
	return age + RECHECK_MS < TOTAL_MS ? RECHECK_MS : TOTAL_MS - MIN(age, (uint64_t)TOTAL_MS);
}

void
forward_go_on(struct question *q)
{
	uint64_t now = loop_now_ms(q->f->loop);
	int i = next_upstream(q);

	if (i >= 0)
		ask_one(q, (unsigned)i, ASK_MIXED);
	if (next_upstream(q) >= 0)
		timer_start(q->timer, SECOND_MS, 0);
	else if (q->waiting > 0)
		timer_start(q->timer, patience_ms(q, now), 0);
	else
		forward_settle(q, NULL, 0);
}

/* Whether waiting any longer is useless. */
static bool
forward_over(const struct question *q, uint64_t now)
{
	uint64_t age = now - q->start_ms;
	bool alive = false, dead = true;

	for (const struct ask *a = q->asks; a != NULL; a = a->next) {
		alive |= health_alive(&a->u->health, now);
		dead &= health_dead(&a->u->health, now);
	}
	return age >= TOTAL_MS || (age >= DEAD_TOTAL_MS && !alive) ||
		(q->bad && dead && age >= BAD_TOTAL_MS && next_upstream(q) < 0);
}

static void
on_timer(void *arg)
{
	struct question *q = arg;

	if (forward_over(q, loop_now_ms(q->f->loop)))
		forward_settle(q, NULL, 0);
	else
		forward_go_on(q);
}

/* A lost upstream gets a real query from time to time: if it is back, it answers quickly. */
static void
forward_probe(struct question *q)
{
	struct forward *f = q->f;
	uint64_t now = loop_now_ms(f->loop);

	for (unsigned i = 0; i < f->n; i++) {
		if (!(q->asked & 1u << i) && forward_askable(f->up[i], now) &&
			health_probe(&f->up[i]->health, now))
			ask_one(q, i, ASK_MIXED);
	}
}

/* --- answers -------------------------------------------------------------------------------- */

static bool
forward_is_error(unsigned rcode)
{
	return rcode == DNS_SERVFAIL || rcode == DNS_REFUSED || rcode == DNS_NOTIMP ||
		rcode == DNS_FORMERR || rcode == UPSTREAM_GARBAGE;
}

/* UPSTREAM_GARBAGE: it cannot be read, or is the query itself, which c-ares takes for an answer. */
static unsigned
forward_rcode(const uint8_t *answer, size_t len)
{
	unsigned rcode =
		len >= DNS_HEADER && (answer[2] & 0x80) ? answer[3] & 15u : UPSTREAM_GARBAGE;

	return forward_is_error(rcode) || dns_forward_sound(answer, len) ? rcode : UPSTREAM_GARBAGE;
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

/* Counts a win for `winner`, which answered, and a defeat for the other upstreams that were
 * asked. */
static void
keep_score(struct forward *f, unsigned asked, struct upstream *winner)
{
	uint64_t now = loop_now_ms(f->loop);
	char text[ADDR_TEXT_MAX];

	if (health_lost(&winner->health))
		log_limited(LOG_LEVEL_INFO, 6, "dns", "upstream answers again address=%s",
			addr_text(&winner->addr, text));
	winner->health.lost = 0;
	for (unsigned i = 0; i < f->n; i++) {
		struct upstream *u = f->up[i];

		if (u == winner || !(asked & 1u << i) || !health_beaten(&u->health, now))
			continue;
		log_limited(LOG_LEVEL_WARN, 6, "dns",
			"upstream was slower than others several times in a row; it is asked last "
			"address=%s",
			addr_text(&u->addr, text));
	}
}

/* Stops sending mixed case to an upstream that never keeps it. */
static void
forward_note_folds(struct upstream *u, unsigned more)
{
	char text[ADDR_TEXT_MAX];
	bool before = u->health.folds >= HEALTH_FOLDS_MAX;

	u->health.folds += more;
	if (!before && u->health.folds >= HEALTH_FOLDS_MAX)
		log_limited(LOG_LEVEL_INFO, 6, "dns",
			"upstream does not keep the case of names, it is asked in lower case "
			"address=%s",
			addr_text(&u->addr, text));
}

/*
 * Whether the answer is trusted: it kept the case that we sent, which a forger does not know, or it
 * came in a way that needs no such proof. An answer by TCP comes from the upstream itself, so it
 * shows whether the upstream folds the case, or somebody else answers in its place.
 */
static bool
kept_case(const struct ask *a, const uint8_t *answer, size_t len)
{
	struct upstream *u = a->u;
	char text[ADDR_TEXT_MAX];
	bool same;

	if (a->how == ASK_PLAIN)
		return true;
	same = dns_forward_same(answer, len, a->sent, a->len);
	if (same && a->how == ASK_TCP) {
		forward_add(&a->f->count->forged, 1);
		log_limited(LOG_LEVEL_WARN, 6, "dns",
			"an answer by UDP did not keep the case of the name, the upstream does by "
			"TCP: somebody may forge its answers address=%s",
			addr_text(&u->addr, text));
	}
	if (same)
		u->health.folds = 0;
	else if (a->how == ASK_TCP)
		forward_note_folds(u, HEALTH_FOLDS_MAX);
	else
		forward_add(&a->f->count->case_mismatches, 1);
	return same || a->how == ASK_TCP;
}

enum heard { HEARD_NOTHING, HEARD_BAD, HEARD_FOLDED, HEARD_GOOD };

static enum heard
forward_judge(const struct ask *a, int status, const uint8_t *answer, size_t len)
{
	unsigned rcode;

	if (status < 0 && a->how == ASK_TCP) {
		upstream_no_tcp(a->u);
		return HEARD_FOLDED;
	}
	if (status < 0) {
		upstream_failed(a->u, status);
		return HEARD_NOTHING;
	}
	rcode = forward_rcode(answer, len);
	upstream_heard(a->u, a->start_ms, !forward_is_error(rcode));
	upstream_judge(a->u, a->sent, a->len, rcode);
	if (!kept_case(a, answer, len))
		return HEARD_FOLDED;
	return forward_is_error(rcode) ? HEARD_BAD : HEARD_GOOD;
}

/* Repeats the question by TCP, where only a host on the path can answer; without TCP, by UDP in
 * lower case, with another id and port. */
static void
forward_ask_folded(struct question *q, const struct ask *a)
{
	bool tcp = upstream_has_tcp(a->u);

	if (!tcp)
		forward_note_folds(a->u, 1);
	ask_one(q, forward_index(q->f, a->u), tcp ? ASK_TCP : ASK_PLAIN);
}

/* A lost upstream is back when it answers within the time after which the next one is asked. */
static void
on_late(const struct ask *a, const uint8_t *answer, size_t len)
{
	struct forward *f = a->f;

	if (loop_now_ms(f->loop) - a->start_ms < SECOND_MS)
		a->u->health.lost = 0;
	if (!a->wanted)
		return;
	if (f->late != NULL)
		f->late(f->late_arg, a->sent, a->len, answer, len);
}

static void
on_upstream(void *arg, int status, const uint8_t *answer, size_t len)
{
	auto_free struct ask *a = arg;
	struct forward *f = a->f;
	struct question *q = a->question;
	enum heard heard;

	a->u->open--;
	if (q != NULL)
		unlink_ask(q, a);
	if (status == -ECANCELED)
		return; /* the upstream is being removed; forward_use continues */
	heard = forward_judge(a, status, answer, len);
	if (q == NULL) {
		if (heard == HEARD_GOOD)
			on_late(a, answer, len);
	} else if (heard == HEARD_GOOD) {
		/* A lost upstream won as a probe beside the first one: that is no defeat of the
		 * others. */
		keep_score(f, health_lost(&a->u->health) ? 0 : q->asked, a->u);
		forward_settle(q, answer, len);
	} else if (heard == HEARD_FOLDED) {
		forward_ask_folded(q, a);
	} else {
		q->bad |= heard == HEARD_BAD;
		if (next_upstream(q) >= 0 || q->waiting == 0 || q->bad)
			forward_go_on(q);
	}
}

/* --- entry points --------------------------------------------------------------------------- */

static int
may_ask(struct forward *f, const uint8_t *query, size_t len)
{
	uint64_t mark = loop_probe_parse(query, len), now = loop_now_ms(f->loop);
	bool room = false;

	if (mark != 0) {
		atomic_store_explicit(
			&f->count->loops[mark % FORWARD_LOOPS], mark, memory_order_release);
		return -ELOOP;
	}
	if (f->n == 0) {
		forward_add(&f->count->nobody, 1);
		return -ENETUNREACH;
	}
	for (size_t i = 0; i < f->n && f->n_open < FORWARD_OPEN_MAX; i++)
		room |= forward_askable(f->up[i], now);
	if (!room)
		forward_add(&f->count->full, 1);
	return room ? 0 : -EBUSY;
}

int
forward_ask(struct forward *f, const uint8_t *query, size_t len, forward_fn *fn, void *arg)
{
	struct question *q;
	int rc = may_ask(f, query, len);

	if (rc < 0)
		return rc;
	q = xcalloc(1, sizeof *q + len);
	q->f = f;
	q->fn = fn;
	q->arg = arg;
	q->len = len;
	memcpy(q->bytes, query, len);
	q->timer = timer_new(f->loop, on_timer, q);
	q->start_ms = loop_now_ms(f->loop);
	q->next = f->questions;
	if (q->next != NULL)
		q->next->prev = q;
	f->questions = q;
	f->n_open++;
	forward_add(&f->count->open, 1);
	forward_go_on(q);
	forward_probe(q);
	return 0;
}

/* --- the end -------------------------------------------------------------------------------- */

void
forward_free(struct forward **out)
{
	struct forward *f = take_ptr(out);

	if (f == NULL)
		return;
	f->late = NULL;
	while (f->questions != NULL)
		forward_settle(f->questions, NULL, 0);
	timer_free(&f->beat);
	for (size_t i = 0; i < f->n; i++)
		upstream_free(&f->up[i]);
	free(f);
}
