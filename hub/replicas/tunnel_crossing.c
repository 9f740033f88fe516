/*
 * Streams to nodes that the owner's loop opens, on the worker: each is joined with one that is
 * opened in the node's session. Before that, what the caller says first is passed on already, and
 * the node's answer and resets are passed back with their codes, so that the owner does what it
 * does with a tunnel of its own loop. Streams that nodes open are joined with one to the owner.
 *
 * Datagrams wait in front of the node's tunnel alone, and not in what crosses as well.
 *
 *	opened ─► dialling ─200─► joined
 *	                  └─200, held─► waits ─crossing_take, once `near` has ended─► `taken`
 */
#include "hub/replicas/tunnel_session_private.h"
#include "hub/replicas/tunnels.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct crossing_dial {
	struct crossing *crossing; /* NULL: it has ended */
	uint64_t session;
	struct stream_request request;
	struct stream_field fields[STREAM_FIELDS_MAX];
	char text[];
};

struct crossing {
	LIST_ENTRY(crossing) link;
	struct session_worker *worker;
	uint64_t pair; /* of `near`, if the owner opened it, as `id` */
	int32_t id;
	/* until they are joined: the stream of the caller (the owner, or the node), and the one
	 * that was opened here for it */
	struct stream *near, *far;
	struct crossing_dial *dial; /* until `far` is asked for */
	struct stream_join join;
	bool held, answered;
	bool fed; /* something was passed on */
	crossing_taken_fn *taken; /* NULL: nobody takes it yet */
	void *arg;
};

static void
crossing_destroy(struct crossing *c)
{
	if (c->dial != NULL)
		c->dial->crossing = NULL;
	LIST_REMOVE(c, link);
	stream_join_fini(&c->join);
	free(c);
}

/* code: for the owner. */
static void
crossing_end(struct crossing *c, unsigned code)
{
	crossing_taken_fn *taken = c->taken;
	void *arg = c->arg;

	stream_close(&c->near, code);
	stream_close(&c->far, STREAM_CANCELLED);
	crossing_destroy(c);
	if (taken != NULL)
		taken(arg, NULL);
}

void
crossing_free(struct crossing *c)
{
	c->taken = NULL;
	crossing_end(c, STREAM_CANCELLED);
}

static void
crossing_on_join_ended(void *arg, const struct relay_report *report)
{
	(void)report;
	crossing_destroy(arg);
}

/* Joins the two streams. */
static void
crossing_join(struct crossing *c)
{
	const struct relay_setup setup = {.loop = c->worker->loop,
		.stream = take_ptr(&c->near),
		.ended = crossing_on_join_ended,
		.arg = c,
		.lost = STREAM_LOST,
		.tells = c->id != 0};

	stream_join_init(&c->join, &setup, take_ptr(&c->far));
}

/* Passes on what the caller says before its end is on the worker, or the streams are joined. Of
 * datagrams, which nobody sends before the answer, the first one must be whole. */
static void
crossing_feed(void *arg)
{
	struct crossing *c = arg;
	struct stream *far;
	const void *data;
	size_t n;

	if (c->far == NULL || stream_is_udp(c->far))
		return;
	while ((n = stream_peek(c->near, &data)) > 0 && (n = MIN(n, stream_room(c->far))) > 0) {
		stream_write(c->far, data, n);
		stream_consume(c->near, n);
		c->fed = true;
	}
	if (c->taken == NULL || !stream_eof(c->near))
		return;
	stream_end(c->near);
	stream_close(&c->near, STREAM_DONE);
	stream_on_fading(c->far, NULL, NULL);
	far = take_ptr(&c->far);
	c->taken(c->arg, far);
	crossing_destroy(c);
}

void
crossing_take(struct crossing *c, crossing_taken_fn *taken, void *arg)
{
	assert(c->join.relay == NULL); /* `held` */
	c->taken = taken;
	c->arg = arg;
	crossing_feed(c);
}

static void
crossing_on_near_reset(void *arg, unsigned code)
{
	struct crossing *c = arg;

	stream_close(&c->far, code == STREAM_LOST ? STREAM_LOST : STREAM_CANCELLED);
	crossing_end(c, STREAM_CANCELLED);
}

static void
crossing_on_answered(void *arg, unsigned status, const char *reason)
{
	struct crossing *c = arg;

	if (status != 200) {
		stream_answer(c->near, status >= 400 && status <= 599 ? status : 502, reason);
		crossing_end(c, STREAM_DONE);
		return;
	}
	c->answered = true;
	stream_answer(c->near, 200, "");
	if (c->held)
		crossing_feed(c);
	else
		crossing_join(c);
}

/* The tunnel is lost. Of the caller's first bytes nothing has gone out if they are still here; the
 * owner, which has sent them, cannot know that. A node sends none before the answer. */
static unsigned
crossing_lost(const struct crossing *c)
{
	const void *data;

	return !c->answered && !c->fed && (c->id == 0 || stream_peek(c->near, &data) > 0)
		? STREAM_REFUSED
		: STREAM_LOST;
}

/* Of a node's codes only those go on that tell the owner something, as from a relay: others may
 * accuse the peer, which in the session of all that crosses is this hub, and not the node. */
static void
crossing_on_far_reset(void *arg, unsigned code)
{
	if (code == STREAM_LOST)
		code = crossing_lost(arg);
	else if (code != STREAM_REFUSED && code != STREAM_CANCELLED)
		code = STREAM_BROKEN;
	crossing_end(arg, code);
}

/* A dial in a tunnel that answers nothing any more begins again in another one. */
static void
crossing_on_fading(void *arg)
{
	struct crossing *c = arg;

	if (!c->answered && !c->fed && stream_is_silent(c->far))
		crossing_end(c, crossing_lost(c));
	else
		stream_fade(c->near, stream_is_doubted(c->far));
}

static const struct stream_events near_events = {
	.readable = crossing_feed, .reset = crossing_on_near_reset};
static const struct stream_events far_events = {.answered = crossing_on_answered,
	.writable = crossing_feed,
	.reset = crossing_on_far_reset};

struct crossing *
crossing_find(const struct session_worker *w, uint64_t pair, int32_t id)
{
	struct crossing *c;

	LIST_FOREACH(c, &w->crossings[(uint32_t)id % SESSION_WORKER_BUCKETS], link) {
		if (c->id == id && c->pair == pair)
			return c;
	}
	return NULL;
}

static void
crossing_refuse(struct crossing *c, int rc)
{
	if (rc != -EAGAIN && rc != -EPROTONOSUPPORT && rc != -EINVAL) {
		crossing_end(c, STREAM_REFUSED); /* the tunnel ends, or has just begun */
		return;
	}
	stream_answer(c->near, rc == -EINVAL ? 400 : 503,
		rc == -EAGAIN && c->id == 0 ? "the hub carries too many connections"
					    : tunnels_why_not(rc));
	crossing_end(c, STREAM_DONE);
}

/* Behind the post that begins the session: a stream may overtake that. */
static void
crossing_on_dial(void *arg)
{
	struct crossing_dial *d = arg;
	struct crossing *c = d->crossing;
	const struct tunnel_session *s;
	int rc = -ESHUTDOWN;

	if (c != NULL) {
		c->dial = NULL;
		s = session_worker_find(c->worker, d->session);
		if (s != NULL && !session_is_silent(s->session))
			rc = session_open(s->session, &d->request, &far_events, c, &c->far);
		if (rc == 0)
			stream_on_fading(c->far, crossing_on_fading, c);
		else
			crossing_refuse(c, rc);
		if (rc == 0)
			crossing_feed(c);
	}
	free(d);
}

/* The request without the fields of this hub. */
static struct crossing_dial *
crossing_dial_new(struct crossing *c, const struct stream_request *request)
{
	struct crossing_dial *d;
	size_t size = strlen(request->authority) + 1;
	char *at;

	for (size_t i = 0; i < request->n_fields; i++)
		size += strlen(request->fields[i].name) + strlen(request->fields[i].value) + 2;
	d = xcalloc(1, sizeof *d + size);
	d->crossing = c;
	at = stpcpy(d->text, request->authority) + 1;
	d->request = (struct stream_request){
		.authority = d->text, .udp = request->udp, .fields = d->fields};
	for (size_t i = 0; i < request->n_fields; i++) {
		const struct stream_field *f = &request->fields[i];
		struct stream_field *to = &d->fields[d->request.n_fields];

		if (strcmp(f->name, CROSSING_SESSION) == 0) {
			d->session = strtoull(f->value, NULL, 10);
		} else if (strcmp(f->name, CROSSING_HELD) == 0) {
			c->held = true;
		} else {
			to->name = at;
			at = stpcpy(at, f->name) + 1;
			to->value = at;
			at = stpcpy(at, f->value) + 1;
			d->request.n_fields++;
		}
	}
	return d;
}

static struct crossing *
crossing_new(struct session_worker *w, struct stream *st, uint64_t pair, int32_t id)
{
	struct crossing *c = xcalloc(1, sizeof *c);

	c->worker = w;
	c->near = st;
	c->pair = pair;
	c->id = id;
	LIST_INSERT_HEAD(&w->crossings[(uint32_t)id % SESSION_WORKER_BUCKETS], c, link);
	stream_accept(st, &near_events, c);
	return c;
}

/* The session's number comes first, so that no field of the node's is taken for it. */
unsigned
crossing_opened_by_node(void *tunnel_session, struct stream *st,
	const struct stream_request *request, const char **reason)
{
	const struct tunnel_session *s = tunnel_session;
	struct session_worker *w = s->worker;
	struct crossing *c = crossing_new(w, st, 0, 0);
	struct stream_field fields[STREAM_FIELDS_MAX];
	struct stream_request on = *request;
	char id[24];
	int rc;

	(void)reason;
	snprintf(id, sizeof id, "%llu", (unsigned long long)s->id);
	fields[0] = (struct stream_field){CROSSING_SESSION, id};
	on.fields = fields;
	on.n_fields = MIN(request->n_fields + 1, (size_t)STREAM_FIELDS_MAX);
	for (size_t i = 1; i < on.n_fields; i++)
		fields[i] = request->fields[i - 1];
	rc = crossing_open(w, &w->far, &on, &far_events, c, &c->far);
	if (rc == 0) {
		stream_charge(c->far, s->slot);
		stream_on_fading(c->far, crossing_on_fading, c);
		crossing_feed(c);
	} else {
		crossing_refuse(c, rc);
	}
	return 0;
}

unsigned
crossing_opened(
	void *end, struct stream *st, const struct stream_request *request, const char **reason)
{
	const struct crossing_end *e = end;
	struct session_worker *w = e->worker;
	struct crossing *c = crossing_new(w, st, e->pair, stream_id(st));

	(void)reason;
	c->dial = crossing_dial_new(c, request);
	if (session_worker_find(w, c->dial->session) != NULL)
		crossing_on_dial(c->dial);
	else
		loop_post(w->loop, crossing_on_dial, c->dial);
	return 0;
}
