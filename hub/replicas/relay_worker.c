/*
 * The owner ends the crossing stream when it hands the socket over: that end tells the worker that
 * all which crossed has come, whatever order post and pair of sockets arrive in. The relay is the
 * worker's from on_join to its end. A break is a post, too, since many may come at once while the
 * worker is busy; it may find the relay at its end, so what has been told of that is freed behind
 * it. Only who frees it before `ended` waits for the worker: nothing of it is used there then.
 *
 *	owner    join, stream_end         break           ended()    free
 *	worker            on_join, crossing_take, relay_join, on_break --^     ---> on_gone
 */
#include "hub/replicas/tunnel_session_private.h"

#include <string.h>

#include "base/core/sock.h"

struct relay_worker {
	struct loop *loop; /* the owner's */
	struct session_worker *worker; /* NULL: `relay` is the owner's */
	/* the owner's */
	relay_ended_fn *ended; /* NULL: it was freed */
	void *arg;
	struct stream *near; /* NULL: it has ended */
	uint64_t pair; /* of `near`, as `id` */
	int32_t id;
	bool is_over; /* as told */
	const char *why; /* of relay_worker_break; static text; NULL: not yet */
	/* the worker's */
	int fd;
	struct relay *relay;
	bool over;
	union {
		struct rate *rates[RELAY_RATES]; /* until `relay` begins */
		struct relay_report report; /* from its end on, written before the owner is told */
	};
};

/* --- on the owner's loop -------------------------------------------------------------------- */

static void
relay_worker_on_near_readable(void *arg)
{
	struct relay_worker *r = arg;

	if (stream_eof(r->near))
		stream_close(&r->near, STREAM_DONE);
}

static void
relay_worker_on_near_reset(void *arg, unsigned code)
{
	struct relay_worker *r = arg;

	stream_close(&r->near, code); /* the worker knows why */
}

static void
relay_worker_on_ended(void *arg)
{
	struct relay_worker *r = arg;

	r->is_over = true;
	if (r->ended != NULL)
		r->ended(r->arg, &r->report);
}

/* --- on the worker's loop ------------------------------------------------------------------- */

static void
relay_worker_end(struct relay_worker *r, const struct relay_report *report)
{
	r->over = true;
	r->report = *report;
	relay_free(&r->relay);
	sock_close(&r->fd, true);
	loop_post(r->loop, relay_worker_on_ended, r);
}

static void
relay_worker_on_relay_ended(void *arg, const struct relay_report *report)
{
	relay_worker_end(arg, report);
}

static void
relay_worker_fail(struct relay_worker *r, const char *why)
{
	relay_worker_end(r, &(struct relay_report){.status = 200, .why = why});
}

static void
relay_worker_on_taken(void *arg, struct stream *stream)
{
	struct relay_worker *r = arg;
	struct relay_setup setup = {.loop = r->worker->loop,
		.stream = stream,
		.ended = relay_worker_on_relay_ended,
		.arg = r};

	memcpy(setup.rates, r->rates, sizeof setup.rates);
	if (stream == NULL)
		relay_worker_fail(r, "the stream was reset");
	else
		r->relay = relay_join(&setup, take_fd(&r->fd));
}

static void
relay_worker_on_join(void *arg)
{
	struct relay_worker *r = arg;
	struct crossing *c = crossing_find(r->worker, r->pair, r->id);

	if (c != NULL)
		crossing_take(c, relay_worker_on_taken, r);
	else
		relay_worker_on_taken(r, NULL);
}

/* Before the relay has begun, the crossing still has the stream. */
static void
relay_worker_uncross(struct relay_worker *r)
{
	struct crossing *c = r->relay == NULL ? crossing_find(r->worker, r->pair, r->id) : NULL;

	if (c != NULL)
		crossing_free(c);
}

static void
relay_worker_on_break(void *arg)
{
	struct relay_worker *r = arg;

	if (r->over)
		return;
	if (r->relay != NULL) {
		relay_break(r->relay, r->why);
		return;
	}
	relay_worker_uncross(r);
	relay_worker_fail(r, r->why);
}

/* The owner waits. */
static void
relay_worker_on_free(void *arg)
{
	struct relay_worker *r = arg;

	if (r->over)
		return;
	relay_worker_uncross(r);
	relay_free(&r->relay);
	sock_close(&r->fd, true);
}

/* The last post, to either loop. */
static void
relay_worker_on_gone(void *arg)
{
	free(arg);
}

/* --- relays --------------------------------------------------------------------------------- */

static const struct crossing_end *
relay_worker_crosses(const struct session_workers *workers, const struct stream *st)
{
	const struct crossing_end *e;

	for (size_t i = 0; workers != NULL && i < workers->n; i++)
		LIST_FOREACH(e, &workers->workers[i].near, link)
			if (session_has(e->session, st))
				return e;
	return NULL;
}

struct relay_worker *
relay_worker_join(struct session_workers *workers, const struct relay_setup *setup, int fd)
{
	static const struct stream_events near_events = {
		.readable = relay_worker_on_near_readable, .reset = relay_worker_on_near_reset};
	const struct crossing_end *near = relay_worker_crosses(workers, setup->stream);
	struct relay_worker *r = xcalloc(1, sizeof *r);

	r->loop = setup->loop;
	r->fd = -1;
	if (near == NULL) {
		r->relay = relay_join(setup, fd);
		return r;
	}
	r->worker = near->worker;
	r->pair = near->pair;
	r->ended = setup->ended;
	r->arg = setup->arg;
	r->near = setup->stream;
	r->id = stream_id(r->near);
	r->fd = fd;
	memcpy(r->rates, setup->rates, sizeof r->rates);
	stream_use(r->near, &near_events, r);
	stream_end(r->near);
	loop_post(r->worker->loop, relay_worker_on_join, r);
	return r;
}

void
relay_worker_break(struct relay_worker *r, const char *why)
{
	if (r->worker == NULL) {
		relay_break(r->relay, why);
	} else if (!r->is_over && r->why == NULL) {
		r->why = why;
		loop_post(r->worker->loop, relay_worker_on_break, r);
	}
}

void
relay_worker_free(struct relay_worker **out)
{
	struct relay_worker *r = take_ptr(out);

	if (r == NULL)
		return;
	if (r->worker == NULL) {
		relay_free(&r->relay);
		free(r);
		return;
	}
	r->ended = NULL;
	stream_close(&r->near, STREAM_DONE);
	if (r->is_over) { /* a break may be on its way */
		loop_post(r->worker->loop, relay_worker_on_gone, r);
		return;
	}
	session_worker_ask(r->worker, relay_worker_on_free, r);
	loop_post(r->loop, relay_worker_on_gone, r); /* its end may be */
}
