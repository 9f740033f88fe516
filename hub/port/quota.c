#include "hub/port/quota.h"

#include <string.h>
#include <sys/queue.h>

#include "base/core/hash.h"
#include "model/json.h"

enum {
	BUCKETS = 1024,
	/* idle accounts checked at each take and give: more than can have been added */
	LOOKED_AT = 4
};

struct account {
	LIST_ENTRY(account) entry;
	TAILQ_ENTRY(account) idle; /* while it has no streams */
	struct quota *quota;
	enum quota_kind kind;
	char *name;
	unsigned streams;
	struct rate rate;
};

struct quota {
	struct quota_limits limits;
	LIST_HEAD(, account) buckets[BUCKETS];
	TAILQ_HEAD(, account) idle; /* in the order in which they were last checked */
	unsigned n_idle;
	uint64_t seed;
	uint64_t refused[QUOTA_KINDS];
	_Atomic uint64_t throttled[QUOTA_KINDS]; /* by all loops */
};

static const char *const kinds[QUOTA_KINDS] = {"caller", "node"};

struct quota *
quota_new(const struct quota_limits *limits)
{
	struct quota *q = xcalloc(1, sizeof *q);

	q->limits = *limits;
	TAILQ_INIT(&q->idle);
	random_bytes(&q->seed, sizeof q->seed);
	return q;
}

static void
quota_wake(struct account *a)
{
	TAILQ_REMOVE(&a->quota->idle, a, idle);
	a->quota->n_idle--;
}

/* Frees an idle account. */
static void
quota_forget(struct account *a)
{
	quota_wake(a);
	LIST_REMOVE(a, entry);
	free(a->name);
	free(a);
}

/* Checks some idle accounts: frees those whose rate has recovered, and moves the others to the
 * end. */
static void
quota_tidy(struct quota *q, uint64_t now_ms)
{
	struct account *a;

	for (unsigned n = MIN(q->n_idle, (unsigned)LOOKED_AT); n > 0; n--) {
		a = TAILQ_FIRST(&q->idle);
		if (q->n_idle > QUOTA_IDLE_MOST || rate_rested(&a->rate, now_ms)) {
			quota_forget(a);
			continue;
		}
		TAILQ_REMOVE(&q->idle, a, idle);
		TAILQ_INSERT_TAIL(&q->idle, a, idle);
	}
}

void
quota_free(struct quota **q)
{
	struct quota *old = take_ptr(q);

	if (old == NULL)
		return;
	while (!TAILQ_EMPTY(&old->idle))
		quota_forget(TAILQ_FIRST(&old->idle));
	free(old);
}

void
quota_adopt(struct quota *q, const struct quota_limits *limits)
{
	struct account *a;

	q->limits = *limits;
	for (size_t i = 0; i < BUCKETS; i++)
		LIST_FOREACH(a, &q->buckets[i], entry)
			a->rate.per_s = limits->of[a->kind].bytes_per_s;
}

struct account *
quota_take(struct quota *q, enum quota_kind kind, const char *name, uint64_t now_ms)
{
	size_t bucket = hash64(name, strlen(name), q->seed + kind) % BUCKETS;
	const struct quota_limit *limit = &q->limits.of[kind];
	struct account *a;

	quota_tidy(q, now_ms);
	LIST_FOREACH(a, &q->buckets[bucket], entry)
		if (a->kind == kind && strcmp(a->name, name) == 0)
			break;
	if (a != NULL && limit->streams != 0 && a->streams >= limit->streams) {
		q->refused[kind]++;
		return NULL;
	}
	if (a == NULL) {
		a = xcalloc(1, sizeof *a);
		a->quota = q;
		a->kind = kind;
		a->name = xstrdup(name);
		a->rate.per_s = limit->bytes_per_s;
		a->rate.waits = &q->throttled[kind];
		LIST_INSERT_HEAD(&q->buckets[bucket], a, entry);
	} else if (a->streams == 0) {
		quota_wake(a);
	}
	a->streams++;
	return a;
}

void
quota_give(struct account **out, uint64_t now_ms)
{
	struct account *a = take_ptr(out);
	struct quota *q;

	if (a == NULL || --a->streams > 0)
		return;
	q = a->quota;
	q->n_idle++;
	TAILQ_INSERT_TAIL(&q->idle, a, idle);
	if (rate_rested(&a->rate, now_ms))
		quota_forget(a);
	quota_tidy(q, now_ms);
}

unsigned
quota_idle(const struct quota *q)
{
	return q->n_idle;
}

struct rate *
quota_rate(struct account *a)
{
	return &a->rate;
}

void
quota_metrics(const struct quota *q, struct metrics *m)
{
	char label[QUOTA_KINDS][32];

	for (unsigned k = 0; k < QUOTA_KINDS; k++)
		metric_counter(m, "edgeway_ingress_limited_total",
			"Streams refused: their caller, or their node, had as many as it may.",
			metric_label(label[k], sizeof label[k], "by", kinds[k]), q->refused[k]);
	for (unsigned k = 0; k < QUOTA_KINDS; k++)
		metric_counter(m, "edgeway_ingress_throttled_total",
			"Times that bytes waited: their caller, or their node, had moved as many "
			"as it may.",
			label[k], q->throttled[k]);
}

void
quota_state(const struct quota *q, struct buf *out)
{
	const char *comma = "";
	const struct account *a;

	buf_adds(out, "[");
	for (size_t i = 0; i < BUCKETS; i++)
		LIST_FOREACH(a, &q->buckets[i], entry) {
			if (a->streams == 0)
				continue;
			buf_printf(out, "%s{\"kind\":\"%s\",\"name\":", comma, kinds[a->kind]);
			json_add_text(out, a->name);
			buf_printf(out, ",\"streams\":%u}", a->streams);
			comma = ",";
		}
	buf_adds(out, "]");
}
