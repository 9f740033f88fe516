/*
 * A session belongs to its worker from on_start to `ended`, or to tunnel_session_free, which waits
 * for the worker: so nothing of it is used there afterwards. Orders, which may come late, name the
 * session by its id. Posts keep their order: what a worker has posted before the owner's wait is
 * over comes before tunnel_session_on_gone.
 *
 *	owner    new ---> tls, setup          drain ---> id            draining(), ended()   free
 *	worker            on_start, session_new          session_drain ---^
 */
#include "hub/replicas/tunnel_session_private.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/core/hash.h"
#include "base/core/log.h"

enum {
	/* of the crossing sessions: both ends are here, and end with the process alone */
	CROSSING_STREAMS = 1 << 20,
	CROSSING_PING_MS = 60 * 60 * 1000,
	CROSSING_PROBE_MS = 60 * 1000,
	CROSSING_SHARE = 4, /* of the memory, for them: a quarter at each end */
	COUNT_MS = 1000,
};

/* --- workers -------------------------------------------------------------------------------- */

struct session_workers *
session_workers_new(struct loop *loop, struct loop *const *loops, size_t n, enum session_role role,
	size_t memory)
{
	struct session_workers *w = xcalloc(1, sizeof *w + n * sizeof *w->workers);

	w->loop = loop;
	w->role = role;
	w->n = n;
	if (role == SESSION_SERVER)
		w->shares = fair_share_new(memory);
	w->budget = (struct session_budget){.limit = memory / CROSSING_SHARE, .shares = w->shares};
	for (size_t i = 0; i < n; i++) {
		w->workers[i].of = w;
		w->workers[i].loop = loops[i];
		w->workers[i].budget =
			(struct session_budget){.limit = memory / n, .shares = w->shares};
		w->workers[i].crossing_budget = (struct session_budget){
			.limit = memory / CROSSING_SHARE / n, .shares = w->shares};
	}
	return w;
}

static void
session_worker_on_end(void *arg)
{
	struct session_worker *w = arg;
	struct crossing *c;

	timer_free(&w->counter);
	for (size_t i = 0; i < SESSION_WORKER_BUCKETS; i++)
		while ((c = LIST_FIRST(&w->crossings[i])) != NULL)
			crossing_free(c);
	crossing_ends_free(&w->far);
}

static void
session_workers_on_gone(void *arg)
{
	struct session_workers *w = arg;

	for (size_t i = 0; i < w->n; i++)
		crossing_ends_free(&w->workers[i].near); /* those that came late */
	fair_share_free(&w->shares);
	free(w);
}

void
session_workers_free(struct session_workers **out)
{
	struct session_workers *w = take_ptr(out);

	if (w == NULL)
		return;
	for (size_t i = 0; i < w->n; i++) {
		if (!w->workers[i].began)
			continue;
		session_worker_ask(&w->workers[i], session_worker_on_end, &w->workers[i]);
		crossing_ends_free(&w->workers[i].near);
	}
	loop_post(w->loop, session_workers_on_gone, w); /* behind what the workers have counted */
}

struct question {
	loop_fn *fn;
	void *arg;
	sem_t answered;
};

static void
session_worker_on_question(void *arg)
{
	struct question *q = arg;

	q->fn(q->arg);
	sem_post(&q->answered);
}

void
session_worker_ask(struct session_worker *w, loop_fn *fn, void *arg)
{
	struct question q = {.fn = fn, .arg = arg};

	sem_init(&q.answered, 0, 0);
	loop_post(w->loop, session_worker_on_question, &q);
	while (sem_wait(&q.answered) < 0)
		assert(errno == EINTR);
	sem_destroy(&q.answered);
}

struct tunnel_session *
session_worker_find(const struct session_worker *w, uint64_t id)
{
	struct tunnel_session *s;

	LIST_FOREACH(s, &w->sessions[id % SESSION_WORKER_BUCKETS], link) {
		if (s->id == id)
			return s;
	}
	return NULL;
}

/* --- figures, from the worker to the owner -------------------------------------------------- */

struct session_figures {
	struct tunnel_session *session; /* it is there when this comes: see above */
	struct session_stats stats;
};

struct session_count {
	struct session_worker *worker;
	uint64_t at_ms; /* 0: there is nothing, and no further count until a session begins */
	struct session_budget budget;
	struct session_figures *changed;
	size_t n;
};

static void
session_budget_add(struct session_budget *to, const struct session_budget *b)
{
	to->held += b->held;
	to->granted += b->granted;
	to->queued += b->queued;
}

static void
session_worker_on_counted(void *arg)
{
	struct session_count *c = arg;

	for (size_t i = 0; i < c->n; i++)
		c->changed[i].session->stats = c->changed[i].stats;
	c->worker->counted = c->budget;
	c->worker->counted_ms = c->at_ms;
	c->worker->n_counts++;
	free(c->changed);
	free(c);
}

static void
session_count_add(struct session_count *c, struct tunnel_session *s)
{
	const struct session_stats *now = session_stats(s->session);

	if (memcmp(&s->last, now, sizeof *now) == 0)
		return;
	if ((c->n & (c->n - 1)) == 0) /* it is full: 0, or a power of two */
		c->changed = xrealloc(c->changed, MAX(2 * c->n, 1u) * sizeof *c->changed);
	s->last = *now;
	c->changed[c->n++] = (struct session_figures){s, *now};
}

static void
session_worker_count(void *arg)
{
	struct session_worker *w = arg;
	struct session_count *c = xcalloc(1, sizeof *c);
	struct tunnel_session *s;
	bool any = false;

	c->worker = w;
	for (size_t i = 0; i < SESSION_WORKER_BUCKETS; i++)
		LIST_FOREACH(s, &w->sessions[i], link) {
			any = true;
			session_count_add(c, s);
		}
	session_budget_add(&c->budget, &w->budget);
	session_budget_add(&c->budget, &w->crossing_budget);
	if (any || c->budget.held + c->budget.granted + c->budget.queued > 0)
		c->at_ms = loop_now_ms(w->loop);
	else
		timer_cancel(w->counter);
	loop_post(w->of->loop, session_worker_on_counted, c);
}

static void
session_worker_start_counting(struct session_worker *w)
{
	if (w->counter == NULL)
		w->counter = timer_new(w->loop, session_worker_count, w);
	if (!timer_active(w->counter))
		timer_start(w->counter, COUNT_MS, COUNT_MS);
}

void
session_workers_memory(const struct session_workers *w, struct session_budget *total)
{
	for (size_t i = 0; w != NULL && i < w->n; i++)
		session_budget_add(total, &w->workers[i].counted);
	if (w != NULL)
		session_budget_add(total, &w->budget);
}

uint64_t
session_workers_age_ms(const struct session_workers *w)
{
	uint64_t age = 0;

	for (size_t i = 0; w != NULL && i < w->n; i++) {
		uint64_t now = loop_now_ms(w->loop), at = w->workers[i].counted_ms;

		if (at != 0 && at < now) /* by the worker's clock it may be later */
			age = MAX(age, now - at);
	}
	return age;
}

/* --- what crosses --------------------------------------------------------------------------- */

static const struct session_limits crossing_limits = {.max_streams = CROSSING_STREAMS,
	.ping_ms = CROSSING_PING_MS,
	.dead_ms = UINT_MAX,
	.probe_ms = CROSSING_PROBE_MS};

static void
crossing_end_free(struct crossing_end *e)
{
	LIST_REMOVE(e, link);
	session_free(&e->session);
	free(e);
}

void
crossing_ends_free(struct crossing_ends *ends)
{
	while (!LIST_EMPTY(ends))
		crossing_end_free(LIST_FIRST(ends));
}

static void
crossing_on_ended(void *arg, int rc, const char *why)
{
	struct crossing_end *e = arg;

	if (rc != 0 && e->owner)
		log_error("hub", "streams of a worker have ended rc=%d reason=\"%s\"", rc, why);
	crossing_end_free(e);
}

/* A stream of a node's, on the owner's loop. */
static unsigned
crossing_on_opened(
	void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	const struct crossing_end *e = arg;
	struct session_workers *all = e->worker->of;
	struct stream_field fields[STREAM_FIELDS_MAX];
	struct stream_request own = *request;
	struct tunnel_session *s;
	uint64_t id = 0;

	own.fields = fields;
	own.n_fields = 0;
	for (size_t i = 0; i < request->n_fields; i++) {
		const struct stream_field *f = &request->fields[i];

		if (strcmp(f->name, CROSSING_SESSION) != 0)
			fields[own.n_fields++] = *f;
		else if (id == 0) /* a later one is the node's */
			id = strtoull(f->value, NULL, 10);
	}
	LIST_FOREACH(s, &all->owned[id % SESSION_WORKER_BUCKETS], own) {
		if (s->id != id)
			continue;
		stream_charge(st, s->slot);
		return s->events->opened(s->arg, st, &own, reason);
	}
	*reason = "the node's connection has ended";
	return 503;
}

static void
crossing_end_open(void *arg)
{
	/* a client is not told of streams */
	static const struct session_events near = {
		.opened = crossing_on_opened, .ended = crossing_on_ended};
	static const struct session_events far = {
		.opened = crossing_opened, .ended = crossing_on_ended};
	struct crossing_end *e = arg;
	struct session_worker *w = e->worker;
	bool server = e->owner == (w->of->role == SESSION_SERVER);
	struct loop *loop = e->owner ? w->of->loop : w->loop;
	const struct session_setup setup = {
		.loop = loop,
		.role = server ? SESSION_SERVER : SESSION_CLIENT,
		.wire = transport_socket(loop, take_fd(&e->fd)),
		.budget = e->owner ? &w->of->budget : &w->crossing_budget,
		.limits = &crossing_limits,
		.udp = server,
		.within = true, /* else some nodes would close the way for all */
		.events = e->owner ? &near : &far,
		.arg = e,
	};
	int rc = session_new(&setup, &e->session);

	assert(rc == 0);
	LIST_INSERT_HEAD(e->owner ? &w->near : &w->far, e, link);
}

static struct crossing_end *
crossing_end_new(struct session_worker *w, bool owner, int fd)
{
	struct crossing_end *e = xcalloc(1, sizeof *e);

	e->worker = w;
	e->owner = owner;
	e->fd = fd;
	e->pair = w->last_pair;
	return e;
}

/* owner: the end on this loop is the owner's. */
static int
crossing_begin(struct session_worker *w, bool owner)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return -EAGAIN;
	w->last_pair++;
	crossing_end_open(crossing_end_new(w, owner, pair[0]));
	loop_post(owner ? w->loop : w->of->loop, crossing_end_open,
		crossing_end_new(w, !owner, pair[1]));
	return 0;
}

int
crossing_open(struct session_worker *w, struct crossing_ends *ends,
	const struct stream_request *request, const struct stream_events *events, void *arg,
	struct stream **out)
{
	const struct crossing_end *e = LIST_FIRST(ends);
	int rc = e == NULL ? -ESHUTDOWN : session_open(e->session, request, events, arg, out);

	if (rc != -ESHUTDOWN)
		return rc;
	rc = crossing_begin(w, ends == &w->near);
	return rc < 0 ? rc : session_open(LIST_FIRST(ends)->session, request, events, arg, out);
}

/* --- events, from the worker to the owner --------------------------------------------------- */

static void
tunnel_session_on_draining(void *arg)
{
	struct tunnel_session *s = arg;

	s->drains = true;
	if (s->events != NULL && s->events->draining != NULL)
		s->events->draining(s->arg);
}

static void
tunnel_session_on_asked(void *arg)
{
	const struct tunnel_session *s = arg;

	if (s->events != NULL && s->events->asked != NULL)
		s->events->asked(s->arg);
}

static void
tunnel_session_tell_silent(struct tunnel_session *s, bool is_silent)
{
	s->silent = is_silent;
	if (s->events != NULL && s->events->silent != NULL)
		s->events->silent(s->arg, is_silent);
}

static void
tunnel_session_on_silent(void *arg)
{
	tunnel_session_tell_silent(arg, true);
}

static void
tunnel_session_on_heard(void *arg)
{
	tunnel_session_tell_silent(arg, false);
}

static void
tunnel_session_on_ended(void *arg)
{
	struct tunnel_session *s = arg;

	s->ended = true;
	s->stats = s->last;
	s->since = 0;
	if (s->events != NULL)
		s->events->ended(s->arg, s->rc, s->why);
}

static void
tunnel_session_draining(void *arg)
{
	struct tunnel_session *s = arg;

	loop_post(s->loop, tunnel_session_on_draining, s);
}

static void
tunnel_session_asked(void *arg)
{
	struct tunnel_session *s = arg;

	loop_post(s->loop, tunnel_session_on_asked, s);
}

static void
tunnel_session_silent(void *arg, bool is_silent)
{
	struct tunnel_session *s = arg;

	loop_post(s->loop, is_silent ? tunnel_session_on_silent : tunnel_session_on_heard, s);
}

/* On the worker: the session is gone, and its figures stay. */
static void
tunnel_session_shut(void *arg)
{
	struct tunnel_session *s = arg;

	if (s->session == NULL)
		return;
	s->last = *session_stats(s->session);
	LIST_REMOVE(s, link);
	session_free(&s->session);
}

static void
tunnel_session_ended(void *arg, int rc, const char *why)
{
	struct tunnel_session *s = arg;

	s->rc = rc;
	snprintf(s->why, sizeof s->why, "%s", why);
	tunnel_session_shut(s);
	loop_post(s->loop, tunnel_session_on_ended, s);
}

static const struct session_events tunnel_session_events = {
	.opened = crossing_opened_by_node,
	.draining = tunnel_session_draining,
	.asked = tunnel_session_asked,
	.silent = tunnel_session_silent,
	.ended = tunnel_session_ended,
};

/* --- orders, from the owner to the worker --------------------------------------------------- */

struct session_start {
	struct tunnel_session *session;
	struct tls_stream *tls;
	struct session_setup setup;
	struct session_limits limits;
};

static void
tunnel_session_on_start(void *arg)
{
	struct session_start *start = arg;
	struct tunnel_session *s = start->session;
	struct session_worker *w = s->worker;

	start->setup.loop = w->loop;
	start->setup.budget = &w->budget;
	start->setup.limits = &start->limits;
	start->setup.events = &tunnel_session_events;
	start->setup.arg = s;
	tls_stream_move(start->tls, w->loop);
	start->setup.wire = transport_tls(&start->tls);
	LIST_INSERT_HEAD(&w->sessions[s->id % SESSION_WORKER_BUCKETS], s, link);
	session_worker_start_counting(w);
	if (session_new(&start->setup, &s->session) < 0) {
		LIST_REMOVE(s, link);
		snprintf(s->why, sizeof s->why, "no HTTP/2 session can be made");
		s->rc = -EPROTO;
		loop_post(s->loop, tunnel_session_on_ended, s);
	}
	free(start);
}

static void
tunnel_session_start(struct tunnel_session *s, const struct tunnel_session_setup *setup)
{
	struct session_workers *all = setup->workers;
	struct session_worker *w =
		&all->workers[hash64(setup->node, strlen(setup->node), 0) % all->n];
	struct session_start *start = xcalloc(1, sizeof *start);

	start->session = s;
	start->setup = setup->session;
	start->limits = *setup->session.limits;
	start->tls = take_ptr(setup->tls);
	tls_stream_move(start->tls, NULL);
	s->worker = w;
	w->began = true;
	if (w->counted_ms == 0)
		w->counted_ms = loop_now_ms(all->loop);
	s->id = ++all->last_id;
	s->slot = setup->session.slot;
	LIST_INSERT_HEAD(&all->owned[s->id % SESSION_WORKER_BUCKETS], s, own);
	s->events = setup->session.events;
	s->arg = setup->session.arg;
	if (s->line.peer != NULL)
		start->setup.line = &s->line;
	loop_post(w->loop, tunnel_session_on_start, start);
}

struct session_order {
	struct session_worker *worker;
	uint64_t id;
	void (*fn)(struct session *s);
};

static void
tunnel_session_on_order(void *arg)
{
	struct session_order *o = arg;
	struct tunnel_session *s = session_worker_find(o->worker, o->id);

	if (s != NULL)
		o->fn(s->session);
	free(o);
}

static void
tunnel_session_order(struct tunnel_session *s, void (*fn)(struct session *s))
{
	struct session_order *o;

	if (s->worker == NULL) {
		fn(s->session);
		return;
	}
	o = xmalloc(sizeof *o);
	*o = (struct session_order){s->worker, s->id, fn};
	loop_post(s->worker->loop, tunnel_session_on_order, o);
}

/* --- sessions ------------------------------------------------------------------------------- */

static void
tunnel_session_on_gone(void *arg)
{
	struct tunnel_session *s = arg;

	free(s->node);
	free(s);
}

int
tunnel_session_new(const struct tunnel_session_setup *setup, struct tunnel_session **out)
{
	struct tunnel_session *s = xcalloc(1, sizeof *s);
	struct session_setup own = setup->session;
	int rc = 0;

	s->loop = setup->session.loop;
	s->node = xstrdup(setup->node);
	if (setup->liveness != NULL) {
		liveness_join(setup->liveness, setup->peer, &s->line, loop_now_ms(s->loop));
		own.line = &s->line;
	}
	if (setup->workers != NULL) {
		tunnel_session_start(s, setup);
	} else {
		own.wire = transport_tls(setup->tls);
		rc = session_new(&own, &s->session);
	}
	*out = s;
	if (rc < 0) {
		tls_stream_free(setup->tls);
		liveness_leave(&s->line);
		tunnel_session_on_gone(take_ptr(out));
	}
	return rc;
}

void
tunnel_session_free(struct tunnel_session **out, struct session_stats *past)
{
	struct tunnel_session *s = take_ptr(out);

	if (s == NULL)
		return;
	s->events = NULL;
	if (s->worker != NULL && !s->ended) {
		session_worker_ask(s->worker, tunnel_session_shut, s);
		s->stats = s->last;
	}
	session_stats_add(past, tunnel_session_stats(s));
	session_free(&s->session);
	liveness_leave(&s->line);
	if (s->worker == NULL) {
		tunnel_session_on_gone(s);
		return;
	}
	LIST_REMOVE(s, own);
	loop_post(s->loop, tunnel_session_on_gone, s);
}

void
tunnel_session_drain(struct tunnel_session *s)
{
	s->drains = true;
	tunnel_session_order(s, session_drain);
}

void
tunnel_session_send_away(struct tunnel_session *s)
{
	s->drains = true;
	tunnel_session_order(s, session_send_away);
}

void
tunnel_session_ask_anew(struct tunnel_session *s)
{
	tunnel_session_order(s, session_ask_anew);
}

bool
tunnel_session_is_silent(const struct tunnel_session *s)
{
	return s->worker != NULL ? s->silent : session_is_silent(s->session);
}

const struct session_stats *
tunnel_session_stats(const struct tunnel_session *s)
{
	return s->worker != NULL ? &s->stats : session_stats(s->session);
}

/* How many were opened since the worker's last count. */
static unsigned
tunnel_session_since(const struct tunnel_session *s)
{
	return s->worker != NULL && s->since_count == s->worker->n_counts ? s->since : 0;
}

unsigned
tunnel_session_count(const struct tunnel_session *s)
{
	return tunnel_session_stats(s)->streams + tunnel_session_since(s);
}

void
tunnel_session_streams(
	const struct tunnel_session *s, const char *node, const char **comma, struct buf *out)
{
	if (s->worker == NULL)
		session_streams(s->session, node, comma, out);
}

int
tunnel_session_open(struct tunnel_session *s, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	struct stream_field fields[STREAM_FIELDS_MAX];
	struct stream_request on = *request;
	char id[24];
	int rc;

	if (s->worker == NULL)
		return session_open(s->session, request, events, arg, out);
	if (s->drains || s->ended)
		return -ESHUTDOWN;
	if (request->n_fields + 2 > STREAM_FIELDS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < request->n_fields; i++)
		fields[i] = request->fields[i];
	snprintf(id, sizeof id, "%llu", (unsigned long long)s->id);
	on.fields = fields;
	fields[on.n_fields++] = (struct stream_field){CROSSING_SESSION, id};
	if (request->held)
		fields[on.n_fields++] = (struct stream_field){CROSSING_HELD, "1"};
	rc = crossing_open(s->worker, &s->worker->near, &on, events, arg, out);
	s->since = tunnel_session_since(s) + (rc == 0);
	s->since_count = s->worker->n_counts;
	return rc;
}

/* --- what is told of all -------------------------------------------------------------------- */

struct session_survey {
	struct session_worker *worker;
	const char **comma;
	struct buf *out;
};

static void
session_worker_on_streams(void *arg)
{
	const struct session_survey *survey = arg;
	const struct tunnel_session *s;

	for (size_t i = 0; i < SESSION_WORKER_BUCKETS; i++)
		LIST_FOREACH(s, &survey->worker->sessions[i], link)
			session_streams(s->session, s->node, survey->comma, survey->out);
}

void
session_workers_streams(struct session_workers *w, const char **comma, struct buf *out)
{
	for (size_t i = 0; w != NULL && i < w->n; i++)
		session_worker_ask(&w->workers[i], session_worker_on_streams,
			&(struct session_survey){
				.worker = &w->workers[i], .comma = comma, .out = out});
}
