#include "lb/proxy/tap.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "lb/proxy/access_log.h"
#include "lb/proxy/answer.h"
#include "lb/proxy/exchange.h"
#include "model/json.h"

enum { TAP_ID_MAX = 31, TAP_SERVICE_MAX = 511, TAP_LOOK_MS = 1000 };

/* What one tap selects. number: identifies the tap; never 0 and never reused. */
struct tap_filter {
	uint64_t number;
	char service[TAP_SERVICE_MAX + 1]; /* "": all */
	uint16_t client_port; /* 0: all */
};

struct tap_record {
	struct tap_record *next;
	uint64_t number; /* of the tap */
	char text[]; /* members of a JSON object */
};

/* A worker's part, while there is a tap. */
struct tap {
	struct tap_filter filters[TAPS_MOST];
	unsigned n;
	unsigned taken[TAPS_MOST]; /* in this tick */
	uint64_t skipped[TAPS_MOST]; /* not yet reported */
	struct tap_record *first, **last;
};

/* Loop 0's part of one tap. */
struct tap_look {
	struct tap_filter filter; /* number 0: free */
	char id[TAP_ID_MAX + 1];
	/* in force on every worker that has acknowledged this or a later generation */
	uint64_t generation;
	uint64_t asked_ms, kept, skipped; /* kept: since the beginning */
	char *texts[TAP_KEPT]; /* a ring */
};

struct taps {
	struct lb *lb;
	struct timer *timer;
	uint64_t numbers, generation;
	uint64_t *acknowledged; /* for each worker */
	struct tap_look looks[TAPS_MOST];
};

/* --- on a worker's loop --------------------------------------------------------------------- */

/* Sent from loop 0 to a worker with the filters, and back as an acknowledgement. */
struct tap_order {
	struct lb *lb;
	unsigned worker;
	uint64_t generation;
	struct tap *tap; /* NULL: no tap any more */
};

static void
tap_drop_records(struct tap *t)
{
	struct tap_record *r;

	while ((r = t->first) != NULL) {
		t->first = r->next;
		free(r);
	}
}

static void
tap_release(struct tap **out)
{
	struct tap *t = take_ptr(out);

	if (t == NULL)
		return;
	tap_drop_records(t);
	free(t);
}

static void
tap_acknowledge(void *arg)
{
	struct tap_order *o = arg;
	struct taps *taps = o->lb->taps;

	if (taps != NULL)
		taps->acknowledged[o->worker] = o->generation;
	free(o);
}

static void
tap_adopt(void *arg)
{
	struct tap_order *o = arg;
	struct worker *w = o->lb->workers[o->worker];

	tap_flush(w);
	tap_release(&w->tap);
	w->tap = take_ptr(&o->tap);
	if (w->stopped)
		tap_release(&w->tap);
	loop_post(o->lb->config.main, tap_acknowledge, o);
}

static const struct endpoint *
tap_endpoint(const struct group *g, const struct target *t)
{
	const struct service_port *p = g->port_of;

	for (unsigned i = 0; t != NULL && p != NULL && i < service_port_most(p, true); i++) {
		const struct endpoint *e = &p->endpoints[i];

		if (e->port == t->port && memcmp(&e->ip, &t->ip, sizeof e->ip) == 0)
			return e;
	}
	return NULL;
}

static void
tap_add_text(struct buf *out, const char *member, const char *text)
{
	buf_printf(out, ",\"%s\":", member);
	json_add_text(out, text);
}

/* Without the query string, which may contain secrets. */
static void
tap_add_request(struct buf *out, const struct exchange *ex)
{
	const struct http1_str line = access_log_request(ex);
	char text[TAP_REQUEST_MAX + 1];
	auto_free char *whole = xstrndup(line.at, line.len);

	whole[strcspn(whole, "?")] = '\0';
	tap_add_text(out, "request", log_clean(text, sizeof text, whole));
	buf_printf(out, ",\"status\":%u", ex->access.status);
}

static void
tap_add_endpoint(struct buf *out, const struct exchange *ex)
{
	static const char *const tiers[] = {"node", "zone", "rest", "tunnel"};
	const struct group *g = ex->group;
	const struct target *t = ex->access.endpoint;
	const struct endpoint *e = tap_endpoint(g, t);
	char text[ADDR_TEXT_MAX];

	tap_add_text(out, "endpoint", t != NULL ? target_text(t, ex->access.at_other, text) : "");
	tap_add_text(out, "node", e != NULL ? e->node : "");
	tap_add_text(out, "tier", e != NULL ? tiers[e->tier] : "");
	tap_add_text(out, "policy",
		g->service != NULL && g->service->lb.affinity_s > 0
			? "ClientIP affinity"
			: lb_policy_name(worker_policy(ex->downstream->worker, g)));
}

static void
tap_add_time(struct buf *out, const char *member, const struct access_log *a, uint64_t at_us)
{
	if (at_us != 0)
		buf_printf(out, ",\"%s\":%.3f", member, (double)(at_us - a->begin_us) / 1000);
}

/* The rule that decided, the match that fitted, and the Service that got the request. */
static void
tap_add_route(struct buf *out, const struct exchange *ex)
{
	const struct http_route_rule *rule = ex->rule;
	const struct http_route_backend *b = ex->backend;

	if (rule == NULL)
		return;
	buf_printf(out, ",\"route\":{\"route\":\"%s\",\"rule\":%u,\"status\":%u", rule->route,
		rule->index, rule->status);
	tap_add_text(out, "name", rule->name);
	if (rule->redirect != NULL)
		buf_printf(out, ",\"redirect\":%u", rule->redirect->status);
	if (ex->match != NULL) {
		buf_adds(out, ",\"match\":");
		http_route_build_match(out, ex->match);
	}
	if (b != NULL)
		buf_printf(out, ",\"backend\":\"%s/%s\",\"port\":%u,\"weight\":%u,\"of\":%u", b->ns,
			b->name, b->port, b->weight, rule->weight);
	buf_adds(out, "}");
}

static void
tap_write(struct buf *out, const struct exchange *ex, const char *service, enum tap_moment moment)
{
	const struct downstream *f = ex->downstream;
	const struct access_log *a = &ex->access;
	const struct addr from = addr_of(&f->client, f->client_port);
	char when[LOG_TIME_MAX], client[ADDR_TEXT_MAX];

	log_time(when);
	buf_printf(out, "\"time\":\"%s\",\"client\":\"%s\"", when, addr_text(&from, client));
	tap_add_text(out, "service", service);
	buf_printf(out, ",\"port\":%u", f->group->key.port);
	tap_add_endpoint(out, ex);
	tap_add_route(out, ex);
	if (buf_len(&ex->head) > 0)
		tap_add_request(out, ex);
	buf_printf(out, ",\"state\":\"%s\",\"end\":\"%s\",\"bytes_up\":%llu,\"bytes_down\":%llu",
		moment == TAP_OPEN ? "open" : "done", a->end[0] != '\0' ? a->end : "--",
		(unsigned long long)ex->body_sent, (unsigned long long)ex->body_received);
	tap_add_time(out, "connect_ms", a, a->connected_us);
	tap_add_time(out, "first_ms", a, a->first_us);
	tap_add_time(out, "total_ms", a, answer_clock_us());
	buf_printf(out, ",\"attempts\":%u", exchange_retries(ex));
}

static bool
tap_wants(const struct tap_filter *wanted, const struct downstream *f, const char *service)
{
	return (wanted->client_port == 0 || wanted->client_port == f->client_port) &&
		(wanted->service[0] == '\0' || strcmp(wanted->service, service) == 0);
}

static void
tap_keep(struct tap *t, uint64_t number, const struct buf *text)
{
	struct tap_record *r = xmalloc(sizeof *r + buf_len(text) + 1);

	r->next = NULL;
	r->number = number;
	memcpy(r->text, buf_at(text), buf_len(text));
	r->text[buf_len(text)] = '\0';
	*t->last = r;
	t->last = &r->next;
}

void
tap_note(struct exchange *ex, enum tap_moment moment)
{
	const struct service *s = ex->downstream->group->service;
	struct tap *t = ex->downstream->worker->tap;
	char service[TAP_SERVICE_MAX + 1] = "";
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (s != NULL)
		snprintf(service, sizeof service, "%s/%s", s->namespace, s->name);
	for (unsigned i = 0; i < t->n; i++) {
		if (!tap_wants(&t->filters[i], ex->downstream, service))
			continue;
		if (t->taken[i] == TAP_TICK_MOST) {
			t->skipped[i]++;
			continue;
		}
		t->taken[i]++;
		if (buf_len(&text) == 0)
			tap_write(&text, ex, service, moment);
		tap_keep(t, t->filters[i].number, &text);
	}
}

/* --- to loop 0 ------------------------------------------------------------------------------ */

struct tap_parcel {
	struct lb *lb;
	_Atomic unsigned *waiting; /* number of the worker's parcels in transit */
	struct tap records; /* filters, skipped and the list */
};

static struct tap_look *
tap_look_of(struct taps *taps, uint64_t number)
{
	for (unsigned i = 0; taps != NULL && i < TAPS_MOST; i++)
		if (taps->looks[i].filter.number == number)
			return &taps->looks[i];
	return NULL;
}

static void
tap_arrived(void *arg)
{
	struct tap_parcel *p = arg;
	struct taps *taps = p->lb->taps;
	struct tap_look *look;

	atomic_fetch_sub(p->waiting, 1);
	for (unsigned i = 0; i < p->records.n; i++)
		if ((look = tap_look_of(taps, p->records.filters[i].number)) != NULL)
			look->skipped += p->records.skipped[i];
	for (const struct tap_record *r = p->records.first; r != NULL; r = r->next) {
		char **place;

		if ((look = tap_look_of(taps, r->number)) == NULL)
			continue;
		place = &look->texts[look->kept++ % TAP_KEPT];
		free(*place);
		*place = xstrdup(r->text);
	}
	tap_drop_records(&p->records);
	free(p);
}

static bool
tap_has_news(const struct tap *t)
{
	uint64_t skipped = 0;

	for (unsigned i = 0; i < t->n; i++)
		skipped += t->skipped[i];
	return t->first != NULL || skipped > 0;
}

void
tap_flush(struct worker *w)
{
	struct tap *t = w->tap;
	struct tap_parcel *p;

	if (t == NULL)
		return;
	memset(t->taken, 0, sizeof t->taken);
	/* If loop 0 does not keep up, the list stays as it is and only the skipped count grows. */
	if (atomic_load(&w->tap_parcels) >= TAP_PARCELS_MOST)
		for (unsigned i = 0; i < t->n; i++)
			t->taken[i] = TAP_TICK_MOST;
	else if (tap_has_news(t)) {
		p = xcalloc(1, sizeof *p);
		p->lb = w->lb;
		p->waiting = &w->tap_parcels;
		p->records = *t;
		t->first = NULL;
		t->last = &t->first;
		memset(t->skipped, 0, sizeof t->skipped);
		atomic_fetch_add(&w->tap_parcels, 1);
		loop_post(w->lb->config.main, tap_arrived, p);
	}
}

void
tap_worker_end(struct worker *w)
{
	tap_flush(w);
	tap_release(&w->tap);
}

/* --- on loop 0 ------------------------------------------------------------------------------ */

static struct tap *
tap_filters(const struct taps *taps)
{
	struct tap *t = xcalloc(1, sizeof *t);

	for (unsigned i = 0; i < TAPS_MOST; i++)
		if (taps->looks[i].filter.number != 0)
			t->filters[t->n++] = taps->looks[i].filter;
	t->last = &t->first;
	if (t->n == 0)
		free(take_ptr(&t));
	return t;
}

static void
tap_order_all(struct taps *taps)
{
	taps->generation++;
	for (unsigned i = 0; i < taps->lb->config.n_workers; i++) {
		struct tap_order *o = xcalloc(1, sizeof *o);

		*o = (struct tap_order){taps->lb, i, taps->generation, tap_filters(taps)};
		loop_post(taps->lb->config.workers[i], tap_adopt, o);
	}
}

static void
tap_forget(struct tap_look *look)
{
	for (unsigned i = 0; i < TAP_KEPT; i++)
		free(look->texts[i]);
	memset(look, 0, sizeof *look);
}

static void
tap_look_around(void *arg)
{
	struct taps *taps = arg;
	uint64_t now = loop_now_ms(taps->lb->config.main);
	unsigned ended = 0, left = 0;

	for (unsigned i = 0; i < TAPS_MOST; i++) {
		struct tap_look *look = &taps->looks[i];

		if (look->filter.number == 0)
			continue;
		if (now - look->asked_ms < TAP_LAPSE_MS) {
			left++;
			continue;
		}
		tap_forget(look);
		ended++;
	}
	if (ended > 0)
		tap_order_all(taps);
	if (left == 0)
		timer_cancel(taps->timer);
}

static struct taps *
taps_of(struct lb *lb)
{
	struct taps *taps = lb->taps;

	if (taps != NULL)
		return taps;
	taps = lb->taps = xcalloc(1, sizeof *taps);
	taps->lb = lb;
	taps->acknowledged = xcalloc(lb->config.n_workers, sizeof *taps->acknowledged);
	taps->timer = timer_new(lb->config.main, tap_look_around, taps);
	return taps;
}

/* The existing tap of this caller, or a new one; NULL: there is no room. */
static struct tap_look *
tap_look_for(struct taps *taps, const struct lb_tap_ask *ask)
{
	struct tap_look *found = NULL;

	for (unsigned i = 0; i < TAPS_MOST; i++) {
		struct tap_look *look = &taps->looks[i];

		if (look->filter.number != 0 && strcmp(look->id, ask->id) == 0 &&
			strcmp(look->filter.service, ask->service) == 0 &&
			look->filter.client_port == ask->client_port)
			return look;
		if (look->filter.number == 0 && found == NULL)
			found = look;
	}
	if (found == NULL)
		return NULL;
	found->filter.number = ++taps->numbers;
	found->filter.client_port = ask->client_port;
	snprintf(found->filter.service, sizeof found->filter.service, "%s", ask->service);
	snprintf(found->id, sizeof found->id, "%s", ask->id);
	tap_order_all(taps);
	found->generation = taps->generation;
	if (!timer_active(taps->timer))
		timer_start(taps->timer, TAP_LOOK_MS, TAP_LOOK_MS);
	return found;
}

static bool
tap_is_armed(const struct taps *taps, const struct tap_look *look)
{
	for (size_t i = 0; i < taps->lb->config.n_workers; i++)
		if (taps->acknowledged[i] < look->generation)
			return false;
	return true;
}

int
lb_tap(struct lb *lb, const struct lb_tap_ask *ask, struct buf *out)
{
	struct tap_look *look;
	uint64_t first, at;

	if (strlen(ask->id) > TAP_ID_MAX || strlen(ask->service) > TAP_SERVICE_MAX)
		return -EINVAL;
	if (lb == NULL || (look = tap_look_for(taps_of(lb), ask)) == NULL)
		return lb == NULL ? -ENOENT : -EBUSY;
	look->asked_ms = loop_now_ms(lb->config.main);
	first = look->kept > TAP_KEPT ? look->kept - TAP_KEPT : 0;
	at = MIN(MAX(ask->after, first), look->kept);
	buf_printf(out,
		"{\"armed\":%s,\"next\":%llu,\"missed\":%llu,\"skipped\":%llu,\"requests\":[",
		tap_is_armed(lb->taps, look) ? "true" : "false", (unsigned long long)look->kept,
		(unsigned long long)(at > ask->after ? at - ask->after : 0),
		(unsigned long long)look->skipped);
	for (const char *comma = ""; at < look->kept; at++, comma = ",")
		buf_printf(out, "%s\n{%s}", comma, look->texts[at % TAP_KEPT]);
	buf_adds(out, "]}\n");
	if (ask->last) {
		tap_forget(look);
		tap_order_all(lb->taps);
	}
	return 0;
}

void
tap_stop(struct lb *lb)
{
	if (lb->taps != NULL)
		timer_free(&lb->taps->timer);
}

void
tap_free(struct lb *lb)
{
	struct taps *taps = take_ptr(&lb->taps);

	if (taps == NULL)
		return;
	for (unsigned i = 0; i < TAPS_MOST; i++)
		tap_forget(&taps->looks[i]);
	free(taps->acknowledged);
	free(taps);
}
