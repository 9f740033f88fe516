#include "lb/known.h"

#include <errno.h>
#include <semaphore.h>
#include <time.h>

#include "model/backend_tls.h"
#include "model/json.h"

struct inquiry {
	struct worker *worker;
	sem_t done;
	_Atomic int refs; /* the asker and the worker */
	struct buf out;
	unsigned index, n;
};

static void
inquiry_unref(struct inquiry *q)
{
	if (atomic_fetch_sub(&q->refs, 1) > 1)
		return;
	sem_destroy(&q->done);
	buf_fini(&q->out);
	free(q);
}

static const char *
tier_name(const struct balance *b, uint32_t i)
{
	static const char *const names[BALANCE_TIERS] = {[TIER_NODE] = "node",
		[TIER_ZONE] = "zone",
		[TIER_REST] = "rest",
		[TIER_TUNNEL] = "tunnel"};
	int tier = 0;

	while (i >= b->ends[tier])
		tier++;
	return names[tier];
}

enum lb_health
known_health(const struct worker *w, const struct target *t)
{
	const struct balance_node *n = &t->node;

	if (n->down_until_ms > w->now_ms)
		return LB_EJECTED;
	return n->shared != NULL && atomic_load(&n->shared->ill) ? LB_ILL : LB_UP;
}

static void
write_target(struct inquiry *q, const struct target *t, const char *tier)
{
	const struct balance_node *n = &t->node;
	enum lb_health health = known_health(q->worker, t);
	bool out = health == LB_EJECTED;
	char text[ADDR_TEXT_MAX];

	buf_printf(&q->out,
		"{\"address\":\"%s\",\"tier\":\"%s\",\"state\":\"%s\",\"in_flight\":%u,\"idle\":%u,"
		"\"first_byte_us\":%u,\"connect_ms\":%u",
		target_text(t, t->at_other, text), tier, lb_health_name(health), n->in_flight,
		t->n_idle, n->ewma_us, t->connect_ms);
	if (n->shared != NULL)
		buf_printf(&q->out, ",\"in_use\":%u", atomic_load(&n->shared->in_use));
	if (t->failures > 0 || out)
		buf_printf(&q->out, ",\"failures\":%u,\"fault\":\"%s\"", t->failures,
			target_fault_text((enum target_fault)t->fault));
	if (t->tls != NULL) {
		buf_adds(&q->out, ",\"tls\":{\"policy\":");
		json_add_text(&q->out, t->tls->policy);
		buf_adds(&q->out, ",\"name\":");
		json_add_text(&q->out, t->tls->host);
		buf_adds(&q->out, ",\"problem\":");
		json_add_text(&q->out, t->tls_why);
		buf_adds(&q->out, "}");
	}
	if (out)
		buf_printf(&q->out, ",\"ejected_ms\":%llu,\"ejections\":%u,\"wait_ms\":%llu",
			(unsigned long long)(q->worker->now_ms - t->ejected_ms), t->ejections,
			(unsigned long long)(n->down_until_ms - q->worker->now_ms));
	buf_adds(&q->out, "}");
}

static void
write_group(void *arg, const struct group *g)
{
	struct inquiry *q = arg;
	const struct balance *b = &g->balance;

	/* An incomplete list could suggest that all endpoints are down. */
	if (g->service == NULL || q->n + balance_count(b) > KNOWN_MOST)
		return;
	buf_printf(&q->out, "%s{\"worker\":%u,\"service\":\"%s/%s\",\"port\":%u,\"policy\":\"%s\"",
		buf_len(&q->out) > 0 ? "," : "", q->index, g->service->namespace, g->service->name,
		g->key.port, lb_policy_name(worker_policy(q->worker, g)));
	buf_adds(&q->out, ",\"endpoints\":[");
	for (uint32_t i = 0; i < balance_count(b); i++) {
		buf_adds(&q->out, i > 0 ? "," : "");
		write_target(q, container_of(b->nodes[i], struct target, node), tier_name(b, i));
		q->n++;
	}
	buf_adds(&q->out, "]}");
}

static void
on_inquiry(void *arg)
{
	struct inquiry *q = arg;

	if (!q->worker->stopped) {
		worker_enter(q->worker);
		targets_each(q->worker->targets, write_group, q);
	}
	sem_post(&q->done);
	inquiry_unref(q);
}

static bool
known_answered(struct inquiry *q)
{
	struct timespec until;
	int rc;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += KNOWN_WAIT_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	do
		rc = sem_timedwait(&q->done, &until);
	while (rc < 0 && errno == EINTR);
	return rc == 0;
}

/* Asks the worker and waits briefly. The reply is in `out`; false: none came. */
static bool
ask_worker(struct lb *lb, unsigned index, struct buf *out)
{
	struct inquiry *q = xcalloc(1, sizeof *q);
	bool told;

	q->worker = lb->workers[index];
	q->index = index;
	atomic_init(&q->refs, 2);
	sem_init(&q->done, 0, 0);
	buf_init(&q->out, BUF_UNLIMITED);
	if (q->worker->loop == lb->config.main)
		on_inquiry(q);
	else
		loop_post(q->worker->loop, on_inquiry, q);
	told = known_answered(q) && buf_len(&q->out) > 0;
	if (told)
		buf_add(out, buf_at(&q->out), buf_len(&q->out));
	inquiry_unref(q);
	return told;
}

void
known_write(struct lb *lb, struct buf *out)
{
	const char *comma = "";

	buf_adds(out, "[");
	for (unsigned i = 0; i < lb->config.n_workers; i++) {
		auto_buf struct buf said;

		buf_init(&said, BUF_UNLIMITED);
		if (!ask_worker(lb, i, &said))
			continue;
		buf_adds(out, comma);
		buf_add(out, buf_at(&said), buf_len(&said));
		comma = ",";
	}
	buf_adds(out, "]");
}

const char *
lb_health_name(enum lb_health health)
{
	static const char *const names[] = {
		[LB_UNUSED] = "unused", [LB_UP] = "up", [LB_ILL] = "ill", [LB_EJECTED] = "ejected"};

	return names[health];
}
