#include "lb/proxy/mirror.h"

#include <errno.h>
#include <string.h>

#include "lb/conn/gather.h"
#include "lb/proxy/h2_link.h"
#include "lb/proxy/h2_stream.h"
#include "lb/proxy/routing.h"
#include "lb/proxy/upstream_tls.h"

struct mirror {
	struct node node; /* in worker->mirrors */
	struct exchange *of; /* whose request is not whole yet; NULL: it is */
	struct mirror *next; /* of the same request */
	struct expiry expiry;
	struct peer peer; /* fd -1: not dialled yet */
	struct worker *worker;
	struct target *target; /* with a reference, and counted in flight */
	struct h2_link link; /* link.h2 NULL: HTTP/1, or not connected yet */
	struct buf request; /* its head in HTTP/1's terms, then its body, without framing */
	size_t head_bytes;
	uint64_t since_ms, answered; /* bytes of the answer */
	uint32_t client;
	int32_t id; /* of the stream */
	bool chunked; /* HTTP/1: as its head says */
	bool http2, secret; /* no field enters a table */
	bool answered_whole; /* by HTTP/2: its stream is closed */
	bool counted; /* in the client's part of the endpoint: target_end */
	bool connecting;
};

/* Waits no more for its request. */
static void
mirror_unlink(struct mirror *m)
{
	struct mirror **at = m->of != NULL ? &m->of->mirrors : NULL;

	while (at != NULL && *at != m)
		at = &(*at)->next;
	if (at != NULL)
		*at = take_ptr(&m->next);
	m->of = NULL;
}

static void
mirror_end(struct mirror *m)
{
	mirror_unlink(m);
	expiry_cancel(&m->expiry);
	list_del(&m->node);
	m->worker->n_mirrors--;
	if (m->link.h2 != NULL)
		h2_link_close(&m->link);
	if (m->peer.fd >= 0)
		peer_close(&m->peer, !m->peer.eof && !m->answered_whole);
	target_end(m->target, m->client, m->counted);
	target_unref(&m->target);
	buf_fini(&m->request);
	free(m);
}

/* --- its connection ------------------------------------------------------------------------- */

static void
mirror_on_expired(void *arg)
{
	struct mirror *m = arg;
	struct worker *w = m->worker;

	if (w->now_ms - m->since_ms >= MIRROR_MS) {
		count(&w->counters.mirrors_dropped, m->of != NULL);
		mirror_end(m);
	} else {
		expiry_set(&w->expiries, &m->expiry, SPAN_PROBE, w->now_ms);
	}
}

/* --- by HTTP/2 ------------------------------------------------------------------------------ */

static void
on_data(void *arg, void *stream, const char *data, size_t n)
{
	struct mirror *m = arg;

	(void)stream;
	(void)data;
	h2_consume(m->link.h2, m->id, n);
}

static void
on_closed(void *arg, void *stream, uint32_t code)
{
	struct mirror *m = arg;

	(void)stream;
	(void)code;
	m->answered_whole = true;
	h2_goaway(m->link.h2, H2_NO_ERROR);
}

static size_t
on_source(void *arg, void *stream, const char **at, enum h2_rest *rest)
{
	const struct mirror *m = arg;

	(void)stream;
	*at = buf_at(&m->request);
	*rest = H2_LAST;
	return buf_len(&m->request);
}

static void
on_sent(void *arg, void *stream, size_t n)
{
	struct mirror *m = arg;

	(void)stream;
	buf_consume(&m->request, n);
}

static const struct h2_events events = {
	.data = on_data,
	.closed = on_closed,
	.source = on_source,
	.sent = on_sent,
};

static void
on_flushed(struct h2_link *l, bool over)
{
	struct mirror *m = container_of(l, struct mirror, link);

	if (over || m->answered_whole)
		mirror_end(m);
}

static int
mirror_ask(struct mirror *m)
{
	struct h2_fields *f = &m->worker->fields;

	h2_link_open(&m->link, m->worker, &m->peer,
		&(struct h2_setup){.role = H2_CLIENT, .events = &events, .arg = m}, on_flushed);
	if (h2_fields_request(f, buf_at(&m->request), m->head_bytes, m->secret) < 0)
		return -EPROTO;
	m->id = h2_request(m->link.h2, f, buf_len(&m->request) == m->head_bytes, m);
	buf_consume(&m->request, m->head_bytes);
	return m->id < 0 ? m->id : 0;
}

/* --- by either version ---------------------------------------------------------------------- */

static int
mirror_send(struct mirror *m)
{
	size_t n = buf_len(&m->request) - m->head_bytes, used;
	struct http1_body body;
	struct gather g;
	int rc;

	if (m->http2)
		return mirror_ask(m);
	http1_body_init(&body, HTTP1_LENGTH, n);
	gather_init(&g, &m->peer);
	gather_add(&g, buf_at(&m->request), m->head_bytes);
	gather_body(&g, &body, m->chunked, buf_at(&m->request) + m->head_bytes, n, &used);
	rc = gather_flush(&g);
	buf_consume(&m->request, buf_len(&m->request));
	buf_release(&m->request);
	return rc;
}

/* -EAGAIN: there will be more of its answer. */
static int
mirror_read(struct mirror *m)
{
	struct worker *w = m->worker;

	for (int round = 0; round < READ_ROUNDS; round++) {
		ssize_t n = peer_read(&m->peer, w->scratch, sizeof w->scratch);

		if (n <= 0)
			return (int)n;
		m->answered += (uint64_t)n;
		if (m->answered > MIRROR_ANSWER_MAX)
			return -E2BIG;
		if (m->link.h2 != NULL && h2_link_input(&m->link, w->scratch, (size_t)n) < 0)
			return -EPROTO;
	}
	return -EAGAIN;
}

static void
mirror_on_event(void *arg, int fd, unsigned events_)
{
	struct mirror *m = arg;
	int rc = 0;

	(void)fd;
	worker_enter(m->worker);
	if (m->connecting) {
		rc = upstream_tls_connected(m->worker, m->target, &m->peer,
			&(struct upstream_tls){m->target->tls, &m->target->session,
				m->http2 ? UPSTREAM_HTTP2 : UPSTREAM_HTTP1, mirror_on_event, m});
		if (rc == -EAGAIN)
			return;
		if (rc == 0) {
			m->connecting = false;
			peer_connected(&m->peer);
			rc = mirror_send(m);
		}
	} else if (events_ & WATCH_WRITE) {
		rc = m->http2 ? h2_link_writable(&m->link) : peer_flush(&m->peer);
	}
	if (rc < 0 || (events_ & (WATCH_READ | WATCH_HUP) && mirror_read(m) != -EAGAIN) ||
		events_ & WATCH_HUP)
		mirror_end(m);
}

static void
mirror_dial(struct mirror *m)
{
	struct worker *w = m->worker;
	int fd = -1, rc = worker_connect(w, m->target, m->target->at_other, NULL, &fd);

	if (rc < 0) {
		count(&w->counters.mirrors_dropped, 1);
		mirror_end(m);
		return;
	}
	count(&w->counters.mirrors, 1);
	m->connecting = true;
	m->since_ms = w->now_ms;
	peer_open(&m->peer, w->loop, fd, !target_is_far(m->target), mirror_on_event, m);
	expiry_set(&w->expiries, &m->expiry, SPAN_PROBE, w->now_ms);
}

/* --- the request ---------------------------------------------------------------------------- */

/* An endpoint of the mirror's Service, counted in flight; NULL: none. */
static struct target *
mirror_target(struct exchange *ex, const struct http_route_mirror *to)
{
	struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	const struct service *s =
		snapshot_find(w->snapshot, to->ns, strlen(to->ns), to->name, strlen(to->name));
	struct balance_ask ask = {.now_ms = w->now_ms,
		.random = worker_random(w),
		.key = ex->key,
		.client = f->client_ip};
	struct target *t = NULL;
	struct group *g;
	bool denied;

	if (s == NULL || (g = routing_group(f, s, to->port, &denied)) == NULL)
		return NULL;
	ask.policy = worker_policy(w, g);
	ask.max_connections = s->lb.max_connections;
	t = group_pick(g, &ask);
	if (t != NULL && !target_begin(t, f->client_ip, ask.max_connections))
		t = NULL;
	if (t != NULL)
		target_ref(t);
	group_release(&g, w->now_ms);
	return t;
}

/* The head as the endpoint gets it, but for one request alone (HTTP/2 leaves that field out). */
static void
mirror_write_head(struct buf *to, const struct exchange *ex)
{
	buf_add(to, buf_at(&ex->head), buf_len(&ex->head) - 2);
	buf_adds(to, "Connection: close\r\n\r\n");
}

static struct mirror *
mirror_new(struct exchange *ex, const struct http_route_mirror *to)
{
	struct worker *w = ex->downstream->worker;
	struct target *t = w->n_mirrors < MIRRORS_MAX ? mirror_target(ex, to) : NULL;
	struct mirror *m;

	if (t == NULL) {
		count(&w->counters.mirrors_dropped, 1);
		return NULL;
	}
	m = xcalloc(1, sizeof *m);
	m->worker = w;
	m->target = t;
	m->client = ex->downstream->client_ip;
	m->counted = t->node.shared != NULL;
	m->peer.fd = -1;
	buf_init(&m->request, BUF_UNLIMITED);
	expiry_init(&m->expiry, mirror_on_expired, m);
	m->since_ms = w->now_ms;
	expiry_set(&w->expiries, &m->expiry, SPAN_PROBE, w->now_ms);
	list_add_before(&w->mirrors, &m->node);
	w->n_mirrors++;
	mirror_write_head(&m->request, ex);
	m->head_bytes = buf_len(&m->request);
	m->chunked = ex->http.up.framing == HTTP1_CHUNKED;
	m->http2 = ex->h2 != NULL;
	m->secret = m->http2 && ex->h2->secret;
	return m;
}

void
mirror_begin(struct exchange *ex, const struct http1_head *h)
{
	const struct http_route_rule *rule = ex->rule;
	struct worker *w = ex->downstream->worker;
	bool large = h->framing == HTTP1_LENGTH && h->length > MIRROR_BODY_MAX;

	for (size_t i = 0; i < rule->n_mirrors; i++) {
		struct mirror *m;

		if (!http_route_mirrors(&rule->mirrors[i], (uint32_t)(worker_random(w) >> 32)))
			continue;
		if (h->upgrade || large || w->draining) {
			count(&w->counters.mirrors_dropped, 1);
			continue;
		}
		m = mirror_new(ex, &rule->mirrors[i]);
		if (m == NULL)
			continue;
		if (ex->http.request_done) {
			mirror_dial(m);
		} else {
			m->of = ex;
			m->next = ex->mirrors;
			ex->mirrors = m;
		}
	}
}

void
mirror_body(struct exchange *ex, const char *data, size_t n)
{
	struct mirror *first = ex->mirrors;

	if (first != NULL && buf_len(&first->request) + n > first->head_bytes + MIRROR_BODY_MAX) {
		for (; first != NULL; first = first->next)
			count(&first->worker->counters.mirrors_dropped, 1);
		mirror_drop(ex);
	}
	for (struct mirror *m = ex->mirrors; m != NULL; m = m->next)
		buf_add(&m->request, data, n);
}

void
mirror_body_http1(struct exchange *ex, const char *data, size_t n)
{
	struct http1_body body = ex->http.up; /* a copy, since the exchange reads the same bytes */
	struct http1_str piece;
	size_t used;

	body.kept = NULL;
	while (http1_body_next(&body, data, n, &used, &piece) == HTTP1_DATA) {
		mirror_body(ex, piece.at, piece.len);
		data += used;
		n -= used;
	}
}

void
mirror_done(struct exchange *ex)
{
	while (ex->mirrors != NULL) {
		struct mirror *m = ex->mirrors;

		mirror_unlink(m);
		mirror_dial(m);
	}
}

void
mirror_drop(struct exchange *ex)
{
	while (ex->mirrors != NULL)
		mirror_end(ex->mirrors);
}

void
mirror_stop(struct worker *w)
{
	while (!list_empty(&w->mirrors))
		mirror_end(container_of(w->mirrors.next, struct mirror, node));
}
