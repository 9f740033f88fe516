#include "meta/client/pod_asks.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/core/fair_share.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/core/rate.h"
#include "model/json.h"
#include "model/pod_name.h"
#include "model/table.h"

enum { CLIENTS = 256 }; /* by hash: two that share a place share its allowance */

/* A question to the hub, and then its answer for a while. */
struct pod_question {
	struct table_node node;
	struct pod_question *next, **at; /* the youngest first */
	struct pod_ask of;
	char ns[MESH_NAME_MAX + 1]; /* of the pod, once the hub has said */
	char id[37]; /* "" once it is answered */
	uint64_t until_ms; /* waits, or is kept, until then */
	bool coming; /* the pod exists, and its view is on its way */
	struct pod_ask **waiting; /* each holds one of `places` for its client */
	size_t n_waiting;
};

enum pod_rate_of { RATE_PODS, RATE_NAMES, RATES };

static const struct pod_rate {
	unsigned per_s, burst, all_per_s, all_burst;
} pod_rates[RATES] = {
	{POD_ASKS_PER_S, POD_ASKS_BURST, POD_ASKS_ALL_PER_S, POD_ASKS_ALL_BURST},
	{POD_NAMES_PER_S, POD_NAMES_BURST, POD_NAMES_ALL_PER_S, POD_NAMES_ALL_BURST},
};

struct pod_asks {
	struct pod_asks_config config;
	struct timer *timer;
	struct table table;
	struct pod_question *first;
	size_t n, n_open;
	bool ended;
	struct fair_share *places;
	uint64_t seed; /* of clients' hashes */
	struct rate_count clients[RATES][CLIENTS], all[RATES];
	uint64_t asked, limited, late, replaced, answers[POD_KNOWN + 1];
	const char *trouble; /* the last reason why a question was not answered; NULL: none */
	uint64_t trouble_ms;
};

static const char *const answer_names[] = {"unknown", "none", "many", "known"};

void
pod_ask_finish(struct pod_ask *ask, enum pod_answer answer)
{
	ask->answer = answer;
	loop_post(ask->loop, ask->done, ask);
}

static void
pod_asks_note(struct pod_asks *p, const char *trouble)
{
	p->trouble = trouble;
	p->trouble_ms = loop_now_ms(p->config.loop);
}

static uint64_t
pod_asks_hash(const struct pod_ask *a)
{
	return hash64(a->address, strlen(a->address),
		hash64(a->ns, strlen(a->ns), a->port * 2u + a->name));
}

static bool
pod_asks_same(const struct pod_ask *a, const struct pod_ask *b)
{
	return strcmp(a->ns, b->ns) == 0 && strcmp(a->address, b->address) == 0 &&
		a->port == b->port && a->name == b->name;
}

static struct pod_question *
pod_asks_find(const struct pod_asks *p, const struct pod_ask *ask)
{
	struct table_node *n = table_first(&p->table, pod_asks_hash(ask));

	for (; n != NULL; n = table_next(n)) {
		struct pod_question *q = container_of(n, struct pod_question, node);

		if (pod_asks_same(&q->of, ask))
			return q;
	}
	return NULL;
}

static void
pod_asks_give(struct pod_asks *p, struct pod_ask *ask, enum pod_answer answer)
{
	p->answers[answer]++;
	pod_ask_finish(ask, answer);
}

static uint16_t
pod_asks_slot(const struct pod_asks *p, const struct pod_ask *ask)
{
	return fair_share_slot(&ask->client, sizeof ask->client, p->seed);
}

static void
pod_asks_release(struct pod_asks *p, struct pod_question *q)
{
	for (size_t i = 0; i < q->n_waiting; i++) {
		memcpy(q->waiting[i]->found, q->of.found, sizeof q->of.found);
		memcpy(q->waiting[i]->ns, q->ns, sizeof q->ns);
		fair_share_give(p->places, pod_asks_slot(p, q->waiting[i]), 1);
		pod_asks_give(p, q->waiting[i], q->of.answer);
	}
	q->n_waiting = 0;
	free(take_ptr(&q->waiting));
}

static void
pod_asks_drop(struct pod_asks *p, struct pod_question *q)
{
	p->n_open -= q->id[0] != '\0' || q->coming;
	pod_asks_release(p, q);
	table_remove(&p->table, &q->node);
	*q->at = q->next;
	if (q->next != NULL)
		q->next->at = q->at;
	p->n--;
	free(q);
}

/* The answer is kept for `keep_ms`. */
static void
pod_asks_settle(
	struct pod_asks *p, struct pod_question *q, enum pod_answer answer, uint64_t keep_ms)
{
	p->n_open--;
	q->id[0] = '\0';
	q->coming = false;
	q->of.answer = answer;
	if (answer == POD_MANY)
		log_limited(LOG_LEVEL_WARN, 6, "meta",
			"several pods have the address, which says not which one is meant: call it "
			"by the hostname of a headless service address=%s namespace=%s",
			q->of.address, *q->of.ns != '\0' ? q->of.ns : "*");
	pod_asks_release(p, q);
	q->until_ms = loop_now_ms(p->config.loop) + keep_ms;
	if (keep_ms == 0)
		pod_asks_drop(p, q);
}

/* --- the snapshot --------------------------------------------------------------------------- */

static bool
pod_asks_has(const struct pod_asks *p, const char *ns, const struct pod_ask *ask)
{
	const struct snapshot *s = p->config.snapshot(p->config.arg);
	const struct service *svc;
	char name[POD_NAME_MAX];

	if (s == NULL || ns[0] == '\0' || !pod_name_of(name, ask->address))
		return false;
	svc = snapshot_find(s, ns, strlen(ns), name, strlen(name));
	return svc != NULL && (ask->port == 0 || service_port_find(svc, ask->port, false) != NULL);
}

void
pod_asks_look(struct pod_asks *p)
{
	struct pod_question *next;

	for (struct pod_question *q = p->first; q != NULL && p->n_open > 0; q = next) {
		next = q->next;
		if (q->coming && pod_asks_has(p, q->ns, &q->of))
			pod_asks_settle(p, q, POD_KNOWN, 0);
	}
}

/* --- the hub -------------------------------------------------------------------------------- */

struct pod_reply {
	char *found, *ns, *name;
};

static void
pod_asks_take(struct pod_asks *p, struct pod_question *q, const struct pod_reply *r)
{
	enum pod_answer answer = strcmp(r->found, "one") == 0 ? POD_KNOWN
		: strcmp(r->found, "none") == 0               ? POD_NONE
		: strcmp(r->found, "many") == 0               ? POD_MANY
							      : POD_UNKNOWN;

	if (answer == POD_UNKNOWN)
		pod_asks_note(p,
			strcmp(r->found, "full") == 0
				? "this node has as many as the hub keeps for one, all in use"
				: "the hub is busy");
	if (answer == POD_UNKNOWN)
		log_limited(LOG_LEVEL_WARN, 6, "meta",
			"the hub does not say whether there is such a pod reason=%.20s address=%s "
			"namespace=%s",
			r->found, q->of.address, q->of.ns);
	if (answer == POD_KNOWN && q->of.name)
		snprintf(q->of.found, sizeof q->of.found, "%s", r->name);
	if (answer != POD_KNOWN || q->of.name) {
		pod_asks_settle(p, q, answer,
			answer == POD_UNKNOWN         ? 0
				: answer == POD_KNOWN ? POD_ASKS_NAME_MS
						      : POD_ASKS_NONE_MS);
		return;
	}
	q->id[0] = '\0';
	q->coming = true;
	snprintf(q->ns, sizeof q->ns, "%s", r->ns);
	pod_asks_look(p);
}

void
pod_asks_answer(struct pod_asks *p, const char *id, const char *json, size_t len)
{
	static const struct field fields[] = {
		{"found", FIELD_TEXT, offsetof(struct pod_reply, found), 16, NULL, NULL},
		{"ns", FIELD_TEXT, offsetof(struct pod_reply, ns), MESH_NAME_MAX, NULL, NULL},
		{"name", FIELD_TEXT, offsetof(struct pod_reply, name), POD_FOUND_MAX - 1, NULL,
			NULL},
	};
	struct pod_reply r = {NULL, NULL, NULL};
	struct pod_question *q = p->first;
	struct json j;

	while (q != NULL && (q->id[0] == '\0' || strcmp(q->id, id) != 0))
		q = q->next;
	if (q == NULL)
		return;
	if (len > 0) {
		json_init(&j, json, len);
		json_fields(&j, fields, ARRAY_LEN(fields), &r);
		if (json_finish(&j, NULL) < 0)
			len = 0;
	}
	if (len > 0 && r.found != NULL && r.ns != NULL && r.name != NULL)
		pod_asks_take(p, q, &r);
	else
		pod_asks_settle(p, q, POD_UNKNOWN, 0);
	free(r.found);
	free(r.ns);
	free(r.name);
}

/* --- asking --------------------------------------------------------------------------------- */

static void
pod_asks_arm(struct pod_asks *p)
{
	if (p->n > 0 && !timer_active(p->timer))
		timer_start(p->timer, 500, 0);
}

static void
pod_asks_on_timer(void *arg)
{
	struct pod_asks *p = arg;
	uint64_t now = loop_now_ms(p->config.loop);
	struct pod_question *next;

	for (struct pod_question *q = p->first; q != NULL; q = next) {
		next = q->next;
		if (q->until_ms > now)
			continue;
		if (q->id[0] != '\0' || q->coming) {
			p->late++;
			pod_asks_note(p, "the hub does not answer in time");
			log_limited(LOG_LEVEL_WARN, 6, "meta",
				"the hub does not answer in time which pod has an address "
				"address=%s namespace=%s",
				q->of.address, q->of.ns);
			pod_asks_settle(p, q, POD_UNKNOWN, 0);
		} else {
			pod_asks_drop(p, q);
		}
	}
	pod_asks_arm(p);
}

/* As fair_share has it: nobody's latest questions are more than what is left for the others. */
static bool
pod_asks_may(struct pod_asks *p, const struct pod_ask *ask)
{
	const enum pod_rate_of kind = ask->name ? RATE_NAMES : RATE_PODS;
	const struct pod_rate *r = &pod_rates[kind];
	struct rate_count *c = &p->clients[kind][pod_asks_slot(p, ask) % CLIENTS];
	uint64_t now = loop_now_ms(p->config.loop);
	double left = r->all_burst - rate_count_used(&p->all[kind], r->all_per_s, now);

	return rate_count_used(c, r->per_s, now) < left &&
		rate_count_take(c, r->per_s, r->burst, now) &&
		rate_count_take(&p->all[kind], r->all_per_s, r->all_burst, now);
}

/* --- room for one more ---------------------------------------------------------------------- */

static bool
pod_asks_is_here(const struct service *svc)
{
	for (unsigned i = 0; i < svc->n_ports; i++)
		if (svc->ports[i].n_endpoints > 0)
			return (svc->ports[i].endpoints->flags & ENDPOINT_LOCAL) != 0;
	return false;
}

/* Of as many pods as a node may ask for, the one not used for the longest time; NULL: there
 * are fewer, or all are in use. The node's own come without being asked for. */
static const struct service *
pod_asks_unused(struct pod_asks *p)
{
	const struct snapshot *s = p->config.snapshot(p->config.arg);
	const uint64_t now = loop_now_ms(p->config.loop);
	const struct service *unused = NULL;
	uint64_t used, least = now > POD_ASKS_IN_USE_MS ? now - POD_ASKS_IN_USE_MS : 0;
	size_t n = 0;

	for (size_t i = 0; s != NULL && i < snapshot_count(s); i++) {
		const struct service *svc = snapshot_at(s, i);

		if (!pod_name_is(svc->name, strlen(svc->name)) || pod_asks_is_here(svc))
			continue;
		n++;
		used = atomic_load_explicit(&svc->used_ms, memory_order_relaxed);
		if (used < least) {
			least = used;
			unused = svc;
		}
	}
	return n >= MESH_NODE_PODS_MAX ? unused : NULL;
}

/* The oldest answer makes room. */
static void
pod_asks_make_room(struct pod_asks *p)
{
	struct pod_question *oldest = NULL;

	if (p->n < POD_ASKS_KEPT)
		return;
	for (struct pod_question *q = p->first; q != NULL; q = q->next)
		if (q->id[0] == '\0' && !q->coming)
			oldest = q;
	if (oldest != NULL)
		pod_asks_drop(p, oldest);
}

static struct pod_question *
pod_asks_question(struct pod_asks *p, const struct pod_ask *ask)
{
	struct pod_question *q = xcalloc(1, sizeof *q);
	const struct service *unused;
	auto_buf struct buf json;

	buf_init(&json, BUF_UNLIMITED);
	buf_printf(&json, "{\"ns\":\"%s\",\"address\":\"%s\",\"port\":%u,\"name\":%s,\"client\":%u",
		ask->ns, ask->address, ask->port, ask->name ? "true" : "false",
		pod_asks_slot(p, ask));
	unused = ask->name ? NULL : pod_asks_unused(p);
	if (unused != NULL)
		buf_printf(&json, ",\"instead\":\"%s/%s\"", unused->namespace, unused->name);
	buf_adds(&json, "}");
	if (!p->config.send(p->config.arg, buf_str(&json), q->id)) {
		free(q);
		return NULL;
	}
	pod_asks_make_room(p);
	p->asked++;
	p->replaced += unused != NULL;
	q->of = *ask;
	q->until_ms = loop_now_ms(p->config.loop) + POD_ASKS_MS;
	q->at = &p->first;
	q->next = p->first;
	if (q->next != NULL)
		q->next->at = &q->next;
	p->first = q;
	table_add(&p->table, &q->node, pod_asks_hash(ask));
	p->n++;
	p->n_open++;
	pod_asks_arm(p);
	return q;
}

static void
pod_asks_wait(struct pod_asks *p, struct pod_question *q, struct pod_ask *ask)
{
	q->waiting = xrealloc(q->waiting, (q->n_waiting + 1) * sizeof(struct pod_ask *));
	q->waiting[q->n_waiting++] = ask;
	fair_share_charge(p->places, pod_asks_slot(p, ask), 1);
}

void
pod_asks_ask(struct pod_asks *p, struct pod_ask *ask)
{
	struct pod_question *q;

	if (p->ended) {
		pod_asks_give(p, ask, POD_UNKNOWN);
		return;
	}
	if (!ask->name && pod_asks_has(p, ask->ns, ask)) {
		pod_asks_give(p, ask, POD_KNOWN);
		return;
	}
	q = pod_asks_find(p, ask);
	if (q != NULL && q->id[0] == '\0' && !q->coming) {
		memcpy(ask->found, q->of.found, sizeof ask->found);
		pod_asks_give(p, ask, q->of.answer);
		return;
	}
	if (fair_share_room(p->places, pod_asks_slot(p, ask)) == 0 ||
		(q == NULL && !pod_asks_may(p, ask))) {
		p->limited++;
		pod_asks_note(p, "a client asks for too many");
		log_limited(LOG_LEVEL_WARN, 4, "meta",
			"too many questions for pods by their address: some are not answered "
			"address=%s namespace=%s",
			ask->address, ask->ns);
		pod_asks_give(p, ask, POD_UNKNOWN);
		return;
	}
	if (q == NULL && (q = pod_asks_question(p, ask)) == NULL)
		pod_asks_give(p, ask, POD_UNKNOWN);
	else
		pod_asks_wait(p, q, ask);
}

/* --- life ----------------------------------------------------------------------------------- */

struct pod_asks *
pod_asks_new(const struct pod_asks_config *config)
{
	struct pod_asks *p = xcalloc(1, sizeof *p);

	p->config = *config;
	random_bytes(&p->seed, sizeof p->seed);
	p->places = fair_share_new(POD_ASKS_MOST);
	p->timer = timer_new(config->loop, pod_asks_on_timer, p);
	return p;
}

void
pod_asks_end(struct pod_asks *p)
{
	p->ended = true;
	timer_cancel(p->timer);
	while (p->first != NULL)
		pod_asks_drop(p, p->first);
}

void
pod_asks_free(struct pod_asks **out)
{
	struct pod_asks *p = take_ptr(out);

	if (p == NULL)
		return;
	pod_asks_end(p);
	timer_free(&p->timer);
	table_fini(&p->table);
	fair_share_free(&p->places);
	free(p);
}

/* --- state ---------------------------------------------------------------------------------- */

void
pod_asks_metrics(const struct pod_asks *p, struct metrics *m)
{
	char label[64];

	for (unsigned i = 0; i < ARRAY_LEN(answer_names); i++)
		metric_counter(m, "edgeway_meta_pod_questions_total",
			"Questions of this node's pods for pods by their address, by the answer.",
			metric_label(label, sizeof label, "answer", answer_names[i]),
			p->answers[i]);
	metric_counter(m, "edgeway_meta_pod_questions_asked_total",
		"Of these, those that the hub was asked.", NULL, p->asked);
	metric_counter(m, "edgeway_meta_pod_questions_limited_total",
		"Of these, those that were not answered, since there were too many.", NULL,
		p->limited);
	metric_counter(m, "edgeway_meta_pod_questions_late_total",
		"Of these, those that the hub did not answer in time.", NULL, p->late);
	metric_counter(m, "edgeway_meta_pod_questions_replacing_total",
		"Of these, those that named an unused pod to be given back, since the node has as "
		"many as it may.",
		NULL, p->replaced);
}

void
pod_asks_state(const struct pod_asks *p, struct buf *out)
{
	buf_printf(out, "{\"asked\":%llu,\"limited\":%llu,\"late\":%llu,\"pending\":%llu",
		(unsigned long long)p->asked, (unsigned long long)p->limited,
		(unsigned long long)p->late, (unsigned long long)fair_share_used(p->places));
	for (unsigned i = 0; i < ARRAY_LEN(answer_names); i++)
		buf_printf(out, ",\"%s\":%llu", answer_names[i], (unsigned long long)p->answers[i]);
	buf_adds(out, ",\"trouble\":");
	json_add_text(out,
		p->trouble != NULL &&
				loop_now_ms(p->config.loop) - p->trouble_ms < POD_ASKS_TROUBLE_MS
			? p->trouble
			: "");
	buf_adds(out, "}");
}
