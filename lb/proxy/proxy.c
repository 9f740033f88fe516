#include "lb/proxy/proxy.h"

#include <errno.h>

#include "lb/proxy/access_log.h"
#include "lb/proxy/answer.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/h2_client.h"
#include "lb/proxy/listener.h"
#include "lb/proxy/memory.h"
#include "lb/proxy/relay.h"
#include "lb/proxy/server_first.h"
#include "lb/proxy/splice.h"

static void
free_input(struct downstream *f, size_t used)
{
	buf_consume(&f->base.in, used);
	if (buf_len(&f->base.in) == 0)
		buf_release(&f->base.in);
}

void
downstream_close(struct downstream *f, bool reset)
{
	struct worker *w = f->worker;

	if (f->base.ended)
		return;
	if (f->ex != NULL)
		exchange_abort(f->ex);
	if (f->h2 != NULL)
		h2_client_free(f);
	expiry_cancel(&f->expiry);
	peer_close(&f->peer, reset);
	if (w->looked_at == &f->node)
		w->looked_at = f->node.prev;
	list_del(&f->node);
	group_unref(&f->group, w->now_ms);
	fair_share_give(w->lb->connections, f->slot, 1);
	memory_leave(f);
	count(&w->counters.active, (uint64_t)-1);
	worker_free_later(w, &f->base);
}

void
downstream_linger(struct downstream *f)
{
	struct worker *w = f->worker;

	f->state = DOWNSTREAM_LINGER;
	if (peer_shut(&f->peer) < 0 || (f->peer.eof && peer_is_flushed(&f->peer))) {
		downstream_close(f, false);
		return;
	}
	peer_resume(&f->peer);
	/* A slow reader gets as much time for the rest as for any other byte. */
	expiry_set(&w->expiries, &f->expiry, peer_is_flushed(&f->peer) ? SPAN_LINGER : SPAN_IDLE,
		w->now_ms);
}

void
downstream_gate(struct downstream *f)
{
	const struct exchange *ex = f->ex;
	/* A head must be read to its end, however little memory is left. */
	bool full = buf_len(&f->base.in) >=
		(f->state == DOWNSTREAM_HEAD ? MEMORY_ALLOWANCE_MOST : memory_allowance(f));

	if (f->base.ended)
		return;
	if (ex != NULL && !exchange_is_relay(ex) && !ex->http.request_done && ex->upstream != NULL)
		full |= memory_full(&ex->upstream->peer);
	if (full && f->state != DOWNSTREAM_LINGER)
		peer_pause(&f->peer);
	else
		peer_resume(&f->peer);
}

void
downstream_count_own(struct downstream *f, const struct exchange *ex, int status)
{
	struct counters *c = &f->worker->counters;
	struct service_stats_cell *of = ex != NULL ? ex->group->cell : f->group->cell;
	_Atomic uint64_t *const all[] = {&c->own_400, &c->own_403, &c->own_404, &c->own_405,
		&c->own_408, &c->own_414, &c->own_431, &c->own_500, &c->own_501, &c->own_502,
		&c->own_503, &c->own_504, &c->own_505, &c->own_508};
	static const int statuses[ARRAY_LEN(all)] = {
		400, 403, 404, 405, 408, 414, 431, 500, 501, 502, 503, 504, 505, 508};

	count(status < 400 ? &c->status_3xx : status < 500 ? &c->status_4xx : &c->status_5xx, 1);
	count(&of->requests[status / 100], 1);
	count(&of->failures, status >= 500 ? 1 : 0);
	if (ex != NULL)
		service_stats_took(of, answer_clock_us() - ex->begin_us);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (statuses[i] == status)
			count(all[i], 1);
	}
}

void
downstream_refuse(struct downstream *f, int status, const char *line, bool close)
{
	struct worker *w = f->worker;
	struct exchange *ex = f->ex;
	bool keep = ex != NULL && ex->http.keep && !close && !w->draining;
	const struct http1_reply reply = {
		.close = !keep, .keep_alive = keep && ex->http.client_minor == 0};
	const struct http1_error error = {
		.status = status,
		.line = line,
		.retry_after = status == 503 ? 1 : 0,
		.to_head = ex != NULL && ex->http.is_head,
		.location = ex != NULL ? ex->location : NULL,
	};
	ssize_t n = http1_emit_error(w->emit, sizeof w->emit, &error, &reply);

	downstream_count_own(f, ex, status);
	if (ex != NULL) {
		ex->access.status = (uint16_t)status;
		exchange_end(ex);
	} else {
		access_log_refused(f, status);
	}
	if (n < 0 || peer_send_bytes(&f->peer, w->emit, (size_t)n) < 0)
		downstream_close(f, true);
	else
		downstream_next(f, keep);
}

/* Returns the bytes of the head; 0 if it is incomplete or not HTTP. */
static size_t
take_head(struct downstream *f, const char *data, size_t len)
{
	struct worker *w = f->worker;
	size_t from = f->scanned, blank = from == 0 ? http1_skip_blank(data, len) : 0;
	enum http1_guess guess = f->not_first ? HTTP1_LOOKS_HTTP : http1_guess(data, len);
	ssize_t n = 0;

	if (blank > 0)
		return blank;
	if (guess == HTTP1_LOOKS_OPAQUE) {
		f->own_tls = true;
		relay_open(f);
		return 0;
	}
	if (guess == HTTP1_LOOKS_HTTP2) {
		h2_client_open(f);
		return 0;
	}
	if (guess != HTTP1_LOOKS_SHORT)
		n = http1_read_request(&w->head, data, len, &from, false);
	f->scanned = (uint32_t)from;
	if (n == 0 && f->state == DOWNSTREAM_IDLE) {
		f->state = DOWNSTREAM_HEAD;
		expiry_set(&w->expiries, &f->expiry, SPAN_HEAD, w->now_ms);
	}
	if (n == 0)
		return 0;
	f->not_first = true;
	f->silent = false;
	if (n < 0) { /* what follows it cannot be parsed either */
		count(&w->counters.bad_request, 1);
		downstream_refuse(f, (int)-n, w->head.why, true);
		return len;
	}
	f->state = DOWNSTREAM_EXCHANGE;
	exchange_start(f, (size_t)n < len);
	return (size_t)n;
}

/* Uses as many bytes as possible now. Not re-entrant: if an exchange ends in here, this loop
 * continues with the next. */
static size_t
downstream_take(struct downstream *f, const char *data, size_t len)
{
	size_t at = 0, n;

	f->taking = true;
	while (at < len && !f->base.ended && f->state != DOWNSTREAM_LINGER &&
		f->state != DOWNSTREAM_RELAY && f->state != DOWNSTREAM_HTTP2) {
		f->unread = f->ex == NULL && memory_full(&f->peer);
		if (f->unread)
			break;
		if (f->ex == NULL)
			n = take_head(f, data + at, len - at);
		else
			n = exchange_body(f->ex, data + at, len - at);
		if (n == 0)
			break;
		at += n;
	}
	f->taking = false;
	return at;
}

/* Called after bytes were used: a client that has sent its FIN and has nothing in progress is
 * done. */
static void
proxy_settle(struct downstream *f)
{
	if (f->base.ended)
		return;
	if (f->state == DOWNSTREAM_LINGER)
		free_input(f, buf_len(&f->base.in));
	else if (f->state == DOWNSTREAM_RELAY)
		relay_on_input(f);
	else if (f->state == DOWNSTREAM_HTTP2)
		h2_client_on_input(f);
	else if (f->ex == NULL && f->peer.eof && !f->unread)
		downstream_linger(f);
	else if (f->ex != NULL && f->peer.eof && !f->ex->http.request_done &&
		buf_len(&f->base.in) == 0)
		downstream_close(f, false);
	else
		downstream_gate(f);
}

void
downstream_run(struct downstream *f)
{
	size_t used;

	if (f->taking || f->base.ended)
		return;
	if (buf_len(&f->base.in) > 0) {
		used = downstream_take(f, buf_at(&f->base.in), buf_len(&f->base.in));
		free_input(f, used);
	}
	proxy_settle(f);
}

static void
downstream_input(struct downstream *f, const char *data, size_t len)
{
	size_t used;

	if (f->state == DOWNSTREAM_LINGER)
		return;
	if (buf_len(&f->base.in) > 0) {
		buf_add(&f->base.in, data, len);
		downstream_run(f);
		return;
	}
	used = downstream_take(f, data, len);
	if (used < len && !f->base.ended)
		buf_add(&f->base.in, data + used, len - used);
	proxy_settle(f);
}

void
downstream_next(struct downstream *f, bool keep)
{
	struct worker *w = f->worker;

	/* What a response has promised is kept if somebody else takes the next connection: its
	 * client may be sending already. */
	if (!keep || (w->draining && !w->has_successor)) {
		downstream_linger(f);
		return;
	}
	f->state = DOWNSTREAM_IDLE;
	expiry_set(&w->expiries, &f->expiry, SPAN_IDLE, w->now_ms);
	if (buf_len(&f->base.in) > 0 || f->peer.eof)
		downstream_run(f);
	else
		peer_resume(&f->peer);
}

static void
on_eof(struct downstream *f)
{
	struct exchange *ex = f->ex;

	if (f->state == DOWNSTREAM_LINGER) {
		if (peer_is_flushed(&f->peer))
			downstream_close(f, false);
		return;
	}
	if (ex == NULL) {
		if (!f->unread)
			downstream_linger(f); /* a response is still being sent, perhaps */
		return;
	}
	/* Bytes may still wait for a connection to the endpoint; the body may still become
	 * complete. */
	if (!ex->http.request_done && buf_len(&f->base.in) == 0) {
		count(&f->worker->counters.client_lost, 1);
		downstream_close(f, false);
	}
}

static void
read_client(struct downstream *f, unsigned events)
{
	struct worker *w = f->worker;

	if (f->peer.paused && !(events & WATCH_HUP)) /* since the turn began */
		return;
	if (f->peer.paused) { /* a reset; a paused client has sent more than can be taken */
		count(&w->counters.client_lost, f->ex != NULL);
		downstream_close(f, false);
		return;
	}
	/* No other event follows a hang-up: read everything now. */
	for (int round = 0; round < READ_ROUNDS || events & WATCH_HUP; round++) {
		struct exchange *ex = f->ex;
		bool upload = ex != NULL && ex->upstream != NULL && !ex->upstream->connecting;
		size_t most = memory_allowance(f);
		ssize_t n;

		if (upload && ex->step[1] > 0)
			most = memory_step(&ex->upstream->peer, most);
		n = peer_read(&f->peer, w->scratch, most);
		if (n == -EAGAIN && !(events & WATCH_HUP))
			return;
		/* After a FIN that was seen before, a reset is no error of recv(). */
		if (n < 0 || (n == 0 && events & WATCH_HUP)) {
			count(&w->counters.client_lost, f->ex != NULL);
			downstream_close(f, false);
			return;
		}
		if (n == 0) {
			on_eof(f);
			return;
		}
		if (upload)
			ex->step[1] = splice_first(n, most);
		downstream_input(f, w->scratch, (size_t)n);
		if (f->base.ended || f->state == DOWNSTREAM_RELAY || f->state == DOWNSTREAM_HTTP2 ||
			f->peer.paused)
			return;
		if ((size_t)n < most && !(events & WATCH_HUP))
			return;
	}
}

/* Between two requests: the client has read some of the earlier responses. */
static void
write_idle(struct downstream *f)
{
	struct worker *w = f->worker;

	if (f->state == DOWNSTREAM_IDLE)
		expiry_set(&w->expiries, &f->expiry, SPAN_IDLE, w->now_ms);
	if (f->unread && !memory_full(&f->peer))
		downstream_run(f);
}

static void
write_client(struct downstream *f)
{
	if (peer_flush(&f->peer) < 0) {
		count(&f->worker->counters.client_lost, 1);
		downstream_close(f, false);
		return;
	}
	if (f->state == DOWNSTREAM_LINGER)
		downstream_linger(f);
	else if (f->ex != NULL && buf_len(&f->peer.out) > 0)
		exchange_touch(f->ex); /* slow, but alive */
	else if (f->ex != NULL)
		exchange_client_drained(f->ex);
	else
		write_idle(f);
}

static void
downstream_on_event(struct downstream *f, unsigned events)
{
	if (f->state == DOWNSTREAM_RELAY && f->ex->state == EXCHANGE_GREETING)
		server_first_end(f);
	if (f->state == DOWNSTREAM_RELAY) {
		relay_on_downstream(f, events);
	} else if (f->state == DOWNSTREAM_HTTP2) {
		h2_client_on_event(f, events);
	} else {
		if (events & WATCH_WRITE)
			write_client(f);
		if (!f->base.ended && events & (WATCH_READ | WATCH_HUP))
			read_client(f, events);
		/* A hang-up is told once, and what the bytes have made of it must know. */
		if (!f->base.ended && events & WATCH_HUP)
			downstream_on_event(f, WATCH_HUP);
	}
	memory_settle(f);
}

static void
on_downstream(void *arg, int fd, unsigned events)
{
	struct downstream *f = arg;
	struct worker *w = f->worker;

	(void)fd;
	worker_enter(w);
	downstream_on_event(f, events);
	worker_leave(w);
}

static void
on_expired(void *arg)
{
	struct downstream *f = arg;

	if (f->ex != NULL && exchange_not_due(f->ex))
		return;
	if (f->ex != NULL && f->ex->state == EXCHANGE_GREETING) {
		server_first_end(f);
		return;
	}
	switch ((enum downstream_state)f->state) {
	case DOWNSTREAM_HEAD:
		count(&f->worker->counters.timeouts, 1);
		downstream_refuse(f, 408, "the request's head took too long", true);
		break;
	case DOWNSTREAM_EXCHANGE:
		exchange_timeout(f->ex);
		break;
	case DOWNSTREAM_IDLE:
		if (f->silent)
			server_first_over(f);
		else
			downstream_close(f, false);
		break;
	case DOWNSTREAM_HTTP2:
		h2_client_on_time(f);
		break;
	case DOWNSTREAM_RELAY:
	case DOWNSTREAM_LINGER:
		if (f->ex != NULL)
			access_log_end(f->ex, "cD");
		downstream_close(f, buf_len(&f->peer.out) > 0);
		break;
	}
}

void
downstream_open(struct worker *w, int fd, struct group *g, const struct addr *client)
{
	struct downstream *f = xcalloc(1, sizeof *f);

	f->worker = w;
	f->group = g;
	(void)addr_ip(client, &f->client);
	f->client_ip = listener_client(&f->client);
	f->client_port = addr_port(client);
	f->slot = fair_share_slot(&f->client_ip, sizeof f->client_ip, w->lb->client_seed);
	memory_enter(f);
	list_add_before(&w->downstreams, &f->node);
	expiry_init(&f->expiry, on_expired, f);
	expiry_set(&w->expiries, &f->expiry, SPAN_IDLE, w->now_ms);
	count(&w->counters.active, 1);
	peer_open(&f->peer, w->loop, fd, false, on_downstream, f);
	f->peer.mind = true;
	count(g->port_of->mode == PORT_HTTP ? &w->counters.accepted_http
					    : &w->counters.accepted_tcp,
		1);
	if (g->port_of->mode == PORT_HTTP) {
		server_first_open(f);
		if (f->state == DOWNSTREAM_IDLE) /* the request may have come already */
			downstream_on_event(f, WATCH_READ);
	} else {
		relay_open(f);
	}
}

void
downstream_drain(struct downstream *f)
{
	if (f->state == DOWNSTREAM_RELAY && f->ex->state == EXCHANGE_GREETING)
		server_first_end(f);
	if (f->state == DOWNSTREAM_HTTP2)
		h2_client_drain(f);
	/* A request that waits unread counts as in progress. */
	if (f->state != DOWNSTREAM_IDLE || f->unread || peer_has_input(&f->peer))
		return;
	if (buf_len(&f->peer.out) > 0)
		downstream_linger(f); /* a response is still being sent */
	else
		downstream_close(f, false);
}
