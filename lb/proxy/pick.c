#include "lb/proxy/pick.h"

#include "lb/balance/affinity.h"

enum { RETRIES = 2 /* for services that do not set it */ };

unsigned
pick_tries(const struct exchange *ex)
{
	const struct service *s = ex->group->service;

	if (ex->rule != NULL && ex->rule->retry != NULL && ex->rule->retry->attempts > 0)
		return MIN(1u + ex->rule->retry->attempts, (unsigned)TRIES_MAX);
	if (s == NULL || s->lb.retries == RETRIES_DEFAULT)
		return 1 + RETRIES;
	return MIN(1u + s->lb.retries, (unsigned)TRIES_MAX);
}

static struct balance_ask
ask_of(const struct exchange *ex)
{
	const struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	const struct service *s = ex->group->service;

	return (struct balance_ask){
		.policy = worker_policy(w, ex->group),
		.now_ms = w->now_ms,
		.random = worker_random(w),
		.key = ex->key,
		.max_connections = s == NULL ? 0 : s->lb.max_connections,
		.slow_start_ms = s == NULL || s->lb.affinity_s > 0 ? 0 : s->lb.slow_start_ms,
		.hash_balance = s == NULL ? 0 : s->lb.hash_balance,
		.client = f->client_ip,
		.avoid = ex->tried,
		.n_avoid = ex->n_tried,
	};
}

struct sticky {
	uint64_t seen, key;
};

static bool
is_known(const void *arg, uint64_t hash)
{
	const struct sticky *k = arg;

	return affinity_names(k->seen, k->key, hash);
}

/* The endpoint that this client was given before; the client keeps it as long as it is usable. */
static struct target *
pick_sticky(struct exchange *ex, const struct balance_ask *ask)
{
	const struct downstream *f = ex->downstream;
	const struct service *s = ex->group->service;
	struct affinity *a = f->worker->lb->affinity;
	struct sticky k = {.key = affinity_key(a, f->client_ip, s->fake_ip, ex->group->key.port)};
	struct target *t = NULL, *first;

	if (affinity_find(a, k.key, ask->now_ms, s->lb.affinity_s, &k.seen))
		t = group_find(ex->group, ask, is_known, &k);
	if (t != NULL)
		return t;
	t = group_pick(ex->group, ask);
	if (t == NULL)
		return NULL;
	k.seen = affinity_put(a, k.key, k.seen, t->node.hash, ask->now_ms);
	first = group_find(ex->group, ask, is_known, &k);
	return first != NULL ? first : t;
}

static bool
pick_is_session(const void *arg, uint64_t hash)
{
	return hash == ((const struct session_token *)arg)->endpoint;
}

static struct target *
pick_by_policy(struct exchange *ex, const struct balance_ask *ask)
{
	struct group *g = ex->group;
	struct target *t = ex->session.endpoint != 0
		? group_find(g, ask, pick_is_session, &ex->session)
		: NULL;

	if (t != NULL)
		return t;
	if (g->service != NULL && g->service->lb.affinity_s > 0)
		return pick_sticky(ex, ask);
	return group_pick(g, ask);
}

struct target *
pick_next(struct exchange *ex)
{
	const struct balance_ask ask = ask_of(ex);
	struct target *t;

	ex->full = false;
	if (ex->n_tried >= TRIES_MAX)
		return NULL;
	do { /* another worker may take the last connection of the picked endpoint */
		t = pick_by_policy(ex, &ask);
	} while (t != NULL && !target_begin(t, ask.client, ask.max_connections));
	ex->full = t == NULL && balance_untried(&ex->group->balance, &ask);
	return t;
}

void
pick_undo(const struct exchange *ex, struct target *t)
{
	target_end(t, ex->downstream->client_ip, t->node.shared != NULL);
}

bool
pick_all_full(const struct exchange *ex)
{
	const struct balance *b = &ex->group->balance;
	const struct balance_ask ask = ask_of(ex);

	return balance_full(b, &ask) && !balance_any(b, &ask);
}

bool
pick_may_charge(const struct exchange *ex)
{
	return ex->n_again + 1u < pick_tries(ex) &&
		budget_left(&ex->group->budget, ex->downstream->worker->now_ms);
}

bool
pick_is_free(const struct exchange *ex, const struct target *t)
{
	return ex->n_tried == 0 || (ex->free_retry && t->ejections == 0);
}

bool
pick_is_mute(const struct upstream_conn *b)
{
	return b->target->heard_ms < b->since_ms;
}

bool
pick_another(const struct exchange *ex, struct target *t, bool free)
{
	struct balance_node *avoid[TRIES_MAX + 1];
	struct balance_ask ask = ask_of(ex);

	if (ex->n_tried + 1u >= TRIES_MAX || !(free || pick_may_charge(ex)))
		return false;
	for (size_t i = 0; i < ex->n_tried; i++)
		avoid[i] = ex->tried[i];
	avoid[ex->n_tried] = &t->node;
	ask.avoid = avoid;
	ask.n_avoid = ex->n_tried + 1u;
	return balance_any(&ex->group->balance, &ask);
}

void
pick_avoid(struct exchange *ex, struct target *t)
{
	for (size_t i = 0; i < ex->n_tried; i++) {
		if (ex->tried[i] == &t->node)
			return;
	}
	if (ex->n_tried < TRIES_MAX)
		ex->tried[ex->n_tried++] = &t->node;
}

void
pick_leave(struct exchange *ex, struct target *t, bool free)
{
	if (pick_another(ex, t, free)) {
		pick_avoid(ex, t);
		return;
	}
	ex->n_past = (uint8_t)(ex->n_past + ex->n_tried + 1);
	ex->n_tried = 0;
	ex->n_again++;
	budget_spend(&ex->group->budget, ex->downstream->worker->now_ms);
}
