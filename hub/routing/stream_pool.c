#include "hub/routing/stream_pool.h"

#include <string.h>
#include <sys/queue.h>

#include "base/core/fair_share.h"
#include "base/core/figures.h"
#include "base/core/hash.h"

enum { BUCKETS = 256, LEAVE_MS = 5000, TICK_MS = 500, KEY_TEXTS = 5 };

struct use {
	struct stream_use is; /* must be first */
	TAILQ_ENTRY(use) entry; /* of `idle` or `leaving` */
	LIST_ENTRY(use) among; /* of its bucket, while idle */
	struct stream_pool *pool;
	struct stream *stream; /* while idle or leaving */
	bool leaves; /* both ends close: it is in no bucket */
	uint16_t slot; /* of the caller, in `shares` */
	uint64_t since_ms, hash, epoch;
	size_t len;
	char *text; /* the key's texts, each with its NUL */
};

TAILQ_HEAD(uses, use);

struct stream_pool {
	struct loop *loop;
	struct timer *tick; /* sleeps while there is nothing to end */
	struct uses idle, leaving; /* the oldest first */
	LIST_HEAD(, use) buckets[BUCKETS];
	struct fair_share *shares; /* of the callers in `idle` */
	uint64_t seed;
	unsigned n_idle;
	uint64_t taken;
};

/* --- keys ----------------------------------------------------------------------------------- */

/* All texts, each with its NUL, which none of them contains: equal bytes are equal keys. */
static size_t
key_write(const struct stream_key *key, char *to, size_t size)
{
	const char *const texts[KEY_TEXTS] = {
		key->caller, key->hops, key->service, key->node, key->authority};
	size_t len = 0;

	for (size_t i = 0; i < KEY_TEXTS; i++) {
		size_t n = strlen(texts[i]) + 1;

		if (to != NULL && len + n <= size)
			memcpy(to + len, texts[i], n);
		len += n;
	}
	return len;
}

struct stream_use *
stream_use_new(
	struct stream_pool *p, const struct stream_key *key, const char *target, const char *at)
{
	struct use *u = xcalloc(1, sizeof *u);

	u->pool = p;
	u->epoch = key->epoch;
	u->slot = fair_share_slot(key->caller, strlen(key->caller), p->seed);
	u->len = key_write(key, NULL, 0);
	u->text = xmalloc(u->len);
	key_write(key, u->text, u->len);
	u->hash = hash64(u->text, u->len, u->epoch);
	u->is.target = xstrdup(target);
	u->is.at = xstrdup(at);
	return &u->is;
}

static bool
use_is_of(const struct use *u, uint64_t hash, uint64_t epoch, const char *text, size_t len)
{
	return u->hash == hash && u->epoch == epoch && u->len == len &&
		memcmp(u->text, text, len) == 0;
}

/* The event of a byte or an end may be still to come. */
static bool
use_is_sound(const struct use *u)
{
	const void *data;

	return !stream_is_doubted(u->stream) && !stream_far_ended(u->stream) &&
		stream_peek(u->stream, &data) == 0;
}

static void
use_free(struct use *u)
{
	free(u->text);
	free((char *)(uintptr_t)u->is.target);
	free((char *)(uintptr_t)u->is.at);
	free(u);
}

void
stream_use_free(struct stream_use **out)
{
	struct stream_use *is = take_ptr(out);

	if (is != NULL)
		use_free((struct use *)is);
}

/* --- the end of a stream -------------------------------------------------------------------- */

static void
pool_remove(struct use *u)
{
	if (u->leaves) {
		TAILQ_REMOVE(&u->pool->leaving, u, entry);
		return;
	}
	TAILQ_REMOVE(&u->pool->idle, u, entry);
	LIST_REMOVE(u, among);
	fair_share_give(u->pool->shares, u->slot, 1);
	u->pool->n_idle--;
}

static void
pool_end(struct use *u, unsigned code)
{
	pool_remove(u);
	stream_close(&u->stream, code);
	use_free(u);
}

static void
pool_arm(struct stream_pool *p)
{
	if (!timer_active(p->tick))
		timer_start(p->tick, TICK_MS, 0);
}

/* It is in no list. */
static void
pool_part(struct use *u)
{
	u->leaves = true;
	u->since_ms = loop_now_ms(u->pool->loop);
	TAILQ_INSERT_TAIL(&u->pool->leaving, u, entry);
	stream_on_fading(u->stream, NULL, NULL);
	stream_end(u->stream);
	if (stream_eof(u->stream))
		pool_end(u, STREAM_DONE);
	else
		pool_arm(u->pool);
}

static void
pool_leave(struct use *u)
{
	pool_remove(u);
	pool_part(u);
}

static void
on_readable(void *arg)
{
	struct use *u = arg;
	bool any = stream_eof(u->stream);
	const void *data;
	size_t n;

	while ((n = stream_peek(u->stream, &data)) > 0) {
		stream_consume(u->stream, n);
		any = true;
	}
	if (u->leaves && stream_eof(u->stream))
		pool_end(u, STREAM_DONE);
	else if (!u->leaves && any) /* else the event is of bytes that its last owner has read */
		pool_leave(u);
}

static void
on_reset(void *arg, unsigned code)
{
	(void)code;
	pool_end(arg, STREAM_CANCELLED);
}

static void
on_fading(void *arg)
{
	pool_leave(arg);
}

static void
pool_on_tick(void *arg)
{
	struct stream_pool *p = arg;
	uint64_t now = loop_now_ms(p->loop);
	struct use *u;

	while ((u = TAILQ_FIRST(&p->leaving)) != NULL && now - u->since_ms >= LEAVE_MS)
		pool_end(u, STREAM_CANCELLED);
	while ((u = TAILQ_FIRST(&p->idle)) != NULL && now - u->since_ms >= STREAM_POOL_MS)
		pool_leave(u);
	if (!TAILQ_EMPTY(&p->leaving) || !TAILQ_EMPTY(&p->idle))
		pool_arm(p);
}

/* --- keeping -------------------------------------------------------------------------------- */

struct stream_pool *
stream_pool_new(struct loop *loop)
{
	struct stream_pool *p = xcalloc(1, sizeof *p);

	p->loop = loop;
	p->tick = timer_new(loop, pool_on_tick, p);
	random_bytes(&p->seed, sizeof p->seed);
	p->shares = fair_share_new(STREAM_POOL_MOST);
	TAILQ_INIT(&p->idle);
	TAILQ_INIT(&p->leaving);
	return p;
}

void
stream_pool_free(struct stream_pool **out)
{
	struct stream_pool *p = take_ptr(out);
	struct use *u;

	if (p == NULL)
		return;
	while ((u = TAILQ_FIRST(&p->idle)) != NULL || (u = TAILQ_FIRST(&p->leaving)) != NULL)
		pool_end(u, STREAM_CANCELLED);
	timer_free(&p->tick);
	fair_share_free(&p->shares);
	free(p);
}

void
stream_pool_clear(struct stream_pool *p)
{
	struct use *u;

	while ((u = TAILQ_FIRST(&p->idle)) != NULL)
		pool_leave(u);
}

/* As many as one caller's requests to one target may keep are idle. */
static bool
pool_has_enough(const struct stream_pool *p, const struct use *u)
{
	const struct use *other;
	unsigned n = 0;

	LIST_FOREACH(other, &p->buckets[u->hash % BUCKETS], among)
		n += use_is_of(other, u->hash, u->epoch, u->text, u->len);
	return n >= STREAM_POOL_OF_ONE;
}

/* The caller that keeps most loses the stream that it has not used for the longest time. */
static void
pool_make_room(struct stream_pool *p)
{
	const uint16_t slot = fair_share_greediest(p->shares);
	struct use *u = TAILQ_FIRST(&p->idle);

	while (u->slot != slot)
		u = TAILQ_NEXT(u, entry);
	pool_leave(u);
}

void
stream_pool_give(struct stream_pool *p, struct stream **stream, struct stream_use **use)
{
	static const struct stream_events events = {.readable = on_readable, .reset = on_reset};
	static const struct stream_key none = {"", "", "", "", "", 0};
	bool keeps = *use != NULL;
	struct use *u = (struct use *)(keeps ? take_ptr(use) : stream_use_new(p, &none, "", ""));

	u->stream = take_ptr(stream);
	stream_use(u->stream, &events, u);
	if (!keeps || pool_has_enough(p, u)) {
		pool_part(u);
		return;
	}
	if (p->n_idle >= STREAM_POOL_MOST)
		pool_make_room(p);
	u->is.used = true;
	u->since_ms = loop_now_ms(p->loop);
	TAILQ_INSERT_TAIL(&p->idle, u, entry);
	LIST_INSERT_HEAD(&p->buckets[u->hash % BUCKETS], u, among);
	fair_share_charge(p->shares, u->slot, 1);
	p->n_idle++;
	stream_on_fading(u->stream, on_fading, u);
	pool_arm(p);
}

bool
stream_pool_any(const struct stream_pool *p)
{
	return p->n_idle > 0;
}

struct stream_use *
stream_pool_take(struct stream_pool *p, const struct stream_key *key, struct stream **out)
{
	char text[2048];
	size_t len = p->n_idle > 0 ? key_write(key, text, sizeof text) : SIZE_MAX;
	uint64_t hash;
	struct use *u;

	if (len > sizeof text)
		return NULL;
	hash = hash64(text, len, key->epoch);
	LIST_FOREACH(u, &p->buckets[hash % BUCKETS], among) {
		if (use_is_of(u, hash, key->epoch, text, len) && use_is_sound(u))
			break;
	}
	if (u == NULL)
		return NULL;
	pool_remove(u);
	p->taken++;
	stream_on_fading(u->stream, NULL, NULL);
	*out = take_ptr(&u->stream);
	return &u->is;
}

static const struct figure pool_figures[] = {
	FIGURE(struct stream_pool, taken, "edgeway_ingress_streams_reused_total", NULL,
		"HTTP requests that used a kept stream: without a dial.", NULL),
	FIGURE(struct stream_pool, n_idle, "edgeway_ingress_idle_streams", NULL,
		"Streams kept for the next HTTP request of their caller.", NULL),
};

void
stream_pool_metrics(const struct stream_pool *p, struct metrics *m)
{
	figures_metrics(FIGURES(pool_figures), p, m);
}
