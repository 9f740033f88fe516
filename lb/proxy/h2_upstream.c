#include "lb/proxy/h2_upstream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/core/log.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/h2_client.h"
#include "lb/proxy/h2_stream.h"
#include "lb/proxy/outlier.h"
#include "lb/proxy/outlier_share.h"
#include "lb/proxy/pick.h"
#include "lb/proxy/pool.h"
#include "lb/proxy/trace.h"
#include "lb/proxy/wait_queue.h"

enum {
	HTTP1_KNOWN_MS = 10 * 1000, /* an endpoint is asked again after that */
	/* longer than an endpoint's delayed acknowledgement, shorter than our RTO: dial.c */
	ASKED_SILENT_MS = 140,
	UPSTREAM_HELD_MAX = 1024 * 1024,
	/* Endpoints end a connection with many of them (CVE-2023-44487), Netty at the 200th in
	 * 30 s, and with it what other clients have there. */
	RESETS_MAX = 100,
	IDLE_MAX = 32, /* sessions without streams of one endpoint: each costs pages of memory */
	FRAME_HEAD_BYTES = 9,
	FRAME_SETTINGS = 4,
};

/* --- streams of a session ------------------------------------------------------------------- */

static void
upstream_settle(struct h2_upstream *u)
{
	struct upstream_conn *b = u->conn;

	if (++b->target->h2_idle > IDLE_MAX)
		u->retired = true;
	h2_link_touch(&u->link);
	u->watched = false;
	expiry_set(&b->worker->expiries, &b->expiry, SPAN_POOL, b->worker->now_ms);
}

void
h2_upstream_join(struct h2_upstream *u, struct h2_stream *st)
{
	st->up = u;
	st->up_id = 0;
	list_add_before(&u->streams, &st->up_node);
	if (u->n_streams++ > 0)
		return;
	u->conn->target->h2_idle--;
	if (u->conn->placed)
		upstream_conn_place(u->conn, st->client->downstream);
	if (!u->watched)
		expiry_cancel(&u->conn->expiry);
}

size_t
h2_upstream_held(const struct h2_upstream *u)
{
	return sizeof *u + sizeof *u->conn + h2_held(u->link.h2) + u->conn->peer.out.size;
}

/* The request's part of the endpoint, given by pick_next(). */
static void
upstream_count(struct h2_stream *st, struct target *t)
{
	st->target = target_ref(t);
	st->counted = t->node.shared != NULL;
}

static void
upstream_uncount(struct h2_stream *st)
{
	struct worker *w = st->client->link.worker;

	target_end(st->target, st->client->downstream->client_ip, st->counted);
	if (st->counted)
		wait_queue_freed(w);
	wait_queue_due(w);
	target_unref(&st->target);
}

void
h2_upstream_leave(struct h2_stream *st, uint32_t code)
{
	struct h2_upstream *u = take_ptr(&st->up);

	if (u == NULL)
		return;
	if (st->up_id != 0) {
		if (h2_is_sent(u->link.h2, st->up_id) && ++u->resets >= RESETS_MAX)
			u->retired = true;
		h2_forget(u->link.h2, st->up_id);
		h2_reset(u->link.h2, st->up_id, code); /* nothing is sent if it is closed */
	}
	st->up_id = 0;
	list_del(&st->up_node);
	upstream_uncount(st);
	if (--u->n_streams == 0)
		upstream_settle(u);
	h2_link_touch(&u->link);
}

/* Streams that the session may have, before its SETTINGS as the endpoint said it last. */
static uint32_t
upstream_streams(const struct h2_upstream *u)
{
	uint32_t most = h2_streams_max(u->link.h2), last = u->conn->target->h2_streams;

	/* What its endpoint does not read stays in our memory, also when its client has gone. */
	if (h2_held(u->link.h2) > UPSTREAM_HELD_MAX)
		return 0;
	return u->settled || last == 0 ? most : MIN(most, last);
}

/* May one of its streams send its request? */
static bool
upstream_may_ask(const struct h2_upstream *u)
{
	return u->n_streams <= upstream_streams(u);
}

void
h2_upstream_watch(struct h2_upstream *u)
{
	struct worker *w = u->link.worker;

	u->asked_ms = w->now_ms;
	h2_link_touch(&u->link);
	if (u->watched)
		return;
	u->watched = true;
	expiry_set(&w->expiries, &u->conn->expiry, SPAN_ACK, w->now_ms);
}

int
h2_upstream_ask(struct h2_stream *st)
{
	struct h2_upstream *u = st->up;
	struct worker *w = u->link.worker;
	struct exchange *ex = st->ex;
	int32_t id;

	if (!upstream_may_ask(u) ||
		h2_fields_request(&w->fields, buf_at(&ex->head), buf_len(&ex->head), st->secret) <
			0)
		return -ESHUTDOWN;
	id = h2_request(u->link.h2, &w->fields,
		ex->http.request_done && buf_len(&st->to_endpoint) == 0 && st->trailers_up.n == 0,
		st);
	if (id < 0) {
		u->retired = true; /* it has no numbers for streams any more */
		return id;
	}
	st->up_id = id;
	st->flow_down = (struct h2_flow){.window = H2_WINDOW};
	h2_upstream_watch(u);
	return 0;
}

/* --- the codec's events --------------------------------------------------------------------- */

static void
on_head(void *arg, void *stream, enum h2_part part, struct h2_section *section, bool last)
{
	struct h2_stream *st = stream;

	(void)arg;
	st->response_done = last;
	st->up->answered = true;
	h2_stream_head(st, part, section);
	if (last && part == H2_TRAILERS && st->up != NULL)
		h2_stream_endpoint_done(st);
}

static void
on_data(void *arg, void *stream, const char *data, size_t n)
{
	(void)arg;
	h2_stream_from_endpoint(stream, data, n);
}

static void
on_end(void *arg, void *stream)
{
	(void)arg;
	h2_stream_endpoint_done(stream);
}

static void
on_closed(void *arg, void *stream, uint32_t code)
{
	struct h2_stream *st = stream;

	(void)arg;
	st->up_id = 0;
	if (st->response_done) {
		h2_upstream_leave(st, H2_NO_ERROR);
		return;
	}
	h2_stream_lost(st,
		code == H2_REFUSED_STREAM       ? H2_LOST_UNPROCESSED
			: h2_is_violation(code) ? H2_LOST_MALFORMED
						: H2_LOST_RESET,
		code);
}

static size_t
on_source(void *arg, void *stream, const char **at, enum h2_rest *rest)
{
	(void)arg;
	return h2_stream_for_endpoint(stream, at, rest);
}

static void
on_sent(void *arg, void *stream, size_t n)
{
	(void)arg;
	h2_stream_endpoint_took(stream, n);
}

static void
on_send_trailers(void *arg, void *stream)
{
	struct h2_upstream *u = arg;
	struct h2_stream *st = stream;
	struct h2_fields *f = &u->link.worker->fields;

	h2_fields_trailers(f, &st->trailers_up);
	h2_trailers(u->link.h2, st->up_id, f);
}

/* Requests for other protocols waited to know whether the endpoint takes them. */
static void
on_settings(void *arg)
{
	struct h2_upstream *u = arg;

	u->settled = true;
	u->conn->target->h2_streams = h2_streams_max(u->link.h2);
	for (struct node *at = u->streams.next, *next; at != &u->streams; at = next) {
		struct h2_stream *st = container_of(at, struct h2_stream, up_node);

		next = at->next;
		if (st->up_id == 0 && st->ex != NULL)
			st->ex->kind->connected(st->ex);
	}
}

static void
on_goaway(void *arg, uint32_t code)
{
	struct h2_upstream *u = arg;

	(void)code;
	u->retired = true;
	h2_link_touch(&u->link);
}

static const struct h2_events events = {
	.head = on_head,
	.data = on_data,
	.end = on_end,
	.closed = on_closed,
	.source = on_source,
	.sent = on_sent,
	.trailers = on_send_trailers,
	.settings = on_settings,
	.goaway = on_goaway,
};

/* --- the session ---------------------------------------------------------------------------- */

static void
upstream_lose(struct h2_upstream *u, enum h2_lost how)
{
	u->retired = true;
	while (!list_empty(&u->streams)) {
		struct h2_stream *st = container_of(u->streams.next, struct h2_stream, up_node);

		if (st->ex != NULL && !st->response_done)
			h2_stream_lost(st,
				st->up_id != 0 && h2_is_sent(u->link.h2, st->up_id)
					? how
					: H2_LOST_UNPROCESSED,
				H2_CANCEL);
		else
			h2_upstream_leave(st, H2_CANCEL);
	}
}

static void
upstream_failed(struct h2_upstream *u)
{
	count(&u->link.worker->counters.bad_response, 1);
	log_limited(LOG_LEVEL_WARN, 6, "lb",
		"ended an HTTP/2 connection to an endpoint: %s port=%u", h2_why(u->link.h2),
		u->conn->target->port);
}

static void
on_flushed(struct h2_link *l, bool over)
{
	struct h2_upstream *u = container_of(l, struct h2_upstream, link);

	if (over && h2_code(l->h2) != H2_NO_ERROR)
		upstream_failed(u);
	if (over || (u->retired && u->n_streams == 0))
		upstream_conn_close(u->conn, false);
}

static void
upstream_wake_all(struct worker *w, struct target *t, bool failed)
{
	while (!list_empty(&t->h2_waiting)) {
		struct h2_stream *st = container_of(t->h2_waiting.next, struct h2_stream, up_node);

		st->dial_failed = failed;
		list_del(&st->up_node);
		list_add_before(&w->h2_woken, &st->up_node);
	}
}

void
h2_upstream_adopt(struct upstream_conn *b)
{
	struct worker *w = b->worker;
	struct target *t = b->target;
	struct h2_stream *st = b->ex != NULL ? b->ex->h2 : NULL;
	struct h2_upstream *u = xcalloc(1, sizeof *u);

	u->conn = b;
	list_init(&u->streams);
	if (st != NULL) {
		st->target = target_ref(t);
		st->counted = upstream_conn_release(b);
	}
	b->h2 = u;
	list_add_before(&t->h2, &u->node);
	t->h2_idle++;
	h2_link_open(&u->link, w, &b->peer,
		&(struct h2_setup){.role = H2_CLIENT, .events = &events, .arg = u}, on_flushed);
	expiry_set(&w->expiries, &b->expiry, SPAN_POOL, w->now_ms);
	if (st != NULL)
		h2_upstream_join(u, st);
	if (t->h2_dial == b)
		t->h2_dial = NULL;
	upstream_wake_all(w, t, false); /* whichever dial they wait for: there is a session now */
}

void
h2_upstream_free(struct upstream_conn *b)
{
	struct h2_upstream *u = b->h2;

	upstream_lose(u, H2_LOST_CONNECTION);
	b->target->h2_idle--;
	list_del(&u->node);
	h2_link_close(&u->link);
	b->h2 = NULL;
	free(u);
}

void
h2_upstream_retire(struct target *t)
{
	for (struct node *at = t->h2.next; at != &t->h2; at = at->next) {
		struct h2_upstream *u = container_of(at, struct h2_upstream, node);

		u->retired = true;
		h2_link_touch(&u->link);
	}
}

void
h2_upstream_is_http1(struct target *t, uint64_t now_ms)
{
	t->no_h2_ms = now_ms + HTTP1_KNOWN_MS;
}

/* A server of HTTP/1 answers the preface with a response, perhaps one of HTTP/0.9 without a head. A
 * server of HTTP/2 begins with SETTINGS, which are shorter than 64 KiB. */
static bool
upstream_is_http1(struct h2_upstream *u)
{
	char *first = u->link.worker->scratch;
	ssize_t n;

	/* with TLS both sides have agreed on HTTP/2 */
	if (u->heard || u->conn->peer.tls != NULL)
		return false;
	n = recv(u->conn->peer.fd, first, FRAME_HEAD_BYTES, MSG_PEEK | MSG_DONTWAIT);
	u->heard = n > 0;
	return n > 0 && (first[0] != 0 || (n == FRAME_HEAD_BYTES && first[3] != FRAME_SETTINGS));
}

void
h2_upstream_on_event(struct upstream_conn *b, unsigned events_)
{
	struct h2_upstream *u = b->h2;
	struct worker *w = b->worker;
	int rc = 0;

	if (events_ & WATCH_WRITE)
		rc = h2_link_writable(&u->link);
	if (rc == 0 && events_ & WATCH_READ && upstream_is_http1(u)) {
		h2_upstream_is_http1(b->target, w->now_ms);
		upstream_lose(u, H2_LOST_HTTP1);
		upstream_conn_close(b, true);
		return;
	}
	if (rc == 0 && events_ & (WATCH_READ | WATCH_HUP))
		rc = h2_link_read(&u->link, events_);
	if (rc == -EPROTO) {
		upstream_lose(u, H2_LOST_MALFORMED); /* on_flushed tells of it */
	} else if (rc < 0) {
		upstream_conn_close(b, false);
	}
}

static void
upstream_silent(struct h2_upstream *u)
{
	struct upstream_conn *b = u->conn;
	bool mute = b->target->heard_ms < u->asked_ms;

	count(&b->worker->counters.silent, 1);
	if (mute)
		outlier_target(b->worker, b->target, TARGET_SILENT, NULL);
	u->retired = true;
	for (struct node *at = u->streams.next, *next; at != &u->streams; at = next) {
		struct h2_stream *st = container_of(at, struct h2_stream, up_node);

		next = at->next;
		if (st->ex != NULL && h2_stream_may_retry(st, H2_LOST_SILENT) &&
			pick_another(st->ex, b->target, mute))
			h2_stream_lost(st, H2_LOST_SILENT, H2_CANCEL);
	}
}

/* As dial.c watches a connection of HTTP/1: are the bytes of the last request acknowledged? */
void
h2_upstream_on_time(struct upstream_conn *b)
{
	struct h2_upstream *u = b->h2;
	struct worker *w = b->worker;
	struct tcp_info info;
	socklen_t len = sizeof info;
	uint64_t waited = w->now_ms - u->asked_ms;

	if (u->n_streams == 0) {
		upstream_conn_close(b, false);
		return;
	}
	u->watched = false;
	if (getsockopt(b->peer.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return;
	if (info.tcpi_unacked == 0) {
		dial_keep_alive(b);
		return;
	}
	u->watched = true;
	expiry_set(&w->expiries, &b->expiry, SPAN_ACK, w->now_ms);
	if (MIN(waited, (uint64_t)info.tcpi_last_ack_recv) >=
			ASKED_SILENT_MS + 4ull * info.tcpi_rtt / 1000 &&
		!b->silent) {
		b->silent = true;
		dial_give_up_late(b);
		upstream_silent(u);
	}
}

/* --- which session, and dials --------------------------------------------------------------- */

static struct h2_upstream *
upstream_with_room(const struct target *t)
{
	for (struct node *at = t->h2.next; at != &t->h2; at = at->next) {
		struct h2_upstream *u = container_of(at, struct h2_upstream, node);

		if (!u->retired && u->n_streams < upstream_streams(u))
			return u;
	}
	return NULL;
}

bool
h2_upstream_take(struct exchange *ex, struct target *t, enum dial *result)
{
	struct h2_stream *st = ex->h2;
	struct worker *w = ex->downstream->worker;
	struct h2_upstream *u = upstream_with_room(t);

	if (w->now_ms < t->no_h2_ms) {
		pick_avoid(ex, t);
		st->http1 = true;
		*result = DIAL_FAILED;
		return true;
	}
	/* An exchange waits for its own dials or for another one's, never for both. */
	if (u == NULL && (t->h2_dial == NULL || ex->upstream != NULL))
		return false;
	upstream_count(st, t);
	if (u == NULL) {
		fair_queue_leave(&ex->waiter);
		list_add_before(&t->h2_waiting, &st->up_node);
		*result = DIAL_WAIT;
		return true;
	}
	count(&w->counters.reuses, 1);
	trace_note(ex, TRACE_REUSE, t);
	upstream_conn_leave_dials(ex);
	h2_upstream_join(u, st);
	*result = DIAL_READY;
	return true;
}

void
h2_upstream_dialling(struct target *t, struct upstream_conn *b)
{
	if (t->h2_dial == NULL)
		t->h2_dial = b;
}

void
h2_upstream_dial_over(struct upstream_conn *b)
{
	struct target *t = b->target;

	if (t == NULL || t->h2_dial != b)
		return;
	t->h2_dial = NULL;
	upstream_wake_all(b->worker, t, true);
}

void
h2_upstream_unwait(struct h2_stream *st)
{
	if (st->up != NULL || st->target == NULL)
		return;
	list_del(&st->up_node);
	upstream_uncount(st);
}

void
h2_upstream_wake(struct worker *w)
{
	while (!list_empty(&w->h2_woken)) {
		struct h2_stream *st = container_of(w->h2_woken.next, struct h2_stream, up_node);
		struct exchange *ex = st->ex;

		/* a dial that failed or takes long: rather another endpoint */
		if (st->dial_failed && pick_another(ex, st->target, true))
			pick_avoid(ex, st->target);
		ex->free_retry = true;
		h2_upstream_unwait(st);
		dial_resume(ex);
	}
}
