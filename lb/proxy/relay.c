#include "lb/proxy/relay.h"

#include <errno.h>

#include "base/core/hops.h"
#include "lb/proxy/access_log.h"
#include "lb/proxy/dial.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/memory.h"
#include "lb/proxy/outlier_share.h"
#include "lb/proxy/permit.h"
#include "lb/proxy/pool.h"
#include "lb/proxy/proxy.h"
#include "lb/proxy/server_first.h"
#include "lb/proxy/splice.h"
#include "lb/proxy/trace.h"

static void
relay_touch(struct downstream *f)
{
	const struct service *s = f->ex->group->service;

	if (s != NULL && s->lb.idle_ms > 0) {
		exchange_due(f->ex, f->worker->now_ms + s->lb.idle_ms);
		return;
	}
	f->ex->own = false;
	expiry_set(&f->worker->expiries, &f->expiry, SPAN_TUNNEL, f->worker->now_ms);
}

static void
close_both(struct exchange *ex, bool reset)
{
	struct downstream *f = ex->downstream;

	if (ex->upstream != NULL)
		upstream_conn_close(ex->upstream, reset);
	downstream_close(f, reset);
}

bool
relay_goes_round(struct exchange *ex)
{
	ex->hops = (uint8_t)hops_of_socket(ex->downstream->peer.fd,
		IN6_IS_ADDR_V4MAPPED(&ex->downstream->client) ? AF_INET : AF_INET6);
	if (ex->hops < HOPS_MAX)
		return false;
	worker_tell_loop(ex->downstream);
	return true;
}

void
relay_cut(struct downstream *f)
{
	access_log_end(f->ex, "PR");
	close_both(f->ex, true);
}

static void
relay_dial_failed(struct exchange *ex)
{
	struct counters *c = &ex->downstream->worker->counters;

	if (ex->state == EXCHANGE_GREETING) {
		server_first_end(ex->downstream);
		return;
	}
	count(ex->full ? &c->overloaded : &c->not_connected, 1);
	count(&ex->group->cell->failures, 1);
	access_log_end(ex, ex->timed_out ? "sC" : "SC");
	close_both(ex, true);
}

void
relay_open(struct downstream *f)
{
	struct worker *w = f->worker;
	struct exchange *ex = exchange_new(f, &relay_kind);
	char reason[PERMIT_REASON_MAX];

	f->ex = ex;
	ex->own_tls = f->own_tls;
	exchange_go(ex, EXCHANGE_RELAYING);
	f->state = DOWNSTREAM_RELAY;
	if (w->traces)
		trace_relay(ex);
	relay_touch(f);
	if (relay_goes_round(ex)) {
		count(&f->group->cell->failures, 1);
		access_log_end(ex, "PR");
		close_both(ex, true);
		return;
	}
	if (!permit_check(f)) {
		permit_refused(f, f->group->service, f->group->key.port, reason);
		relay_cut(f);
		return;
	}
	exchange_use(ex, f->group);
	if (group_tls_wrong(ex->group) != NULL) {
		count(&w->counters.tls_failed, 1);
		count(&ex->group->cell->failures, 1);
		access_log_end(ex, "SC");
		close_both(ex, true);
	} else if (balance_count(&ex->group->balance) == 0) {
		count(ex->group->service != NULL ? &w->counters.no_endpoints
						 : &w->counters.no_service,
			1);
		count(&ex->group->cell->failures, 1);
		access_log_end(ex, "SC");
		close_both(ex, true);
	} else if (dial_start(ex, false) == DIAL_FAILED) {
		relay_dial_failed(ex);
	} else {
		watch_defer(f->peer.watch, true); /* it is read from once connected */
	}
}

static bool
relay_has_all(const struct peer *to)
{
	return to->shut || (to->tls == NULL && peer_is_flushed(to));
}

/* Both directions have ended and nothing is left to write but a FIN, which closing sends. While one
 * goes on, what waits for the turn's end is left there, to go with the FIN of the other. */
static bool
relay_finished(const struct exchange *ex)
{
	const struct peer *down = &ex->downstream->peer, *up = &ex->upstream->peer;

	return down->eof && up->eof && relay_has_all(up) && relay_has_all(down);
}

static void
count_bytes(struct exchange *ex, bool up, uint64_t n)
{
	struct counters *c = &ex->downstream->worker->counters;
	struct service_stats_cell *of = ex->group->cell;

	*(up ? &ex->body_sent : &ex->body_received) += n;
	count(up ? &c->bytes_up : &c->bytes_down, n);
	count(up ? &of->bytes_up : &of->bytes_down, n);
}

/* Sends what the client had sent before the upstream was connected; then its FIN, if that came
 * too. */
static int
hand_over_input(struct exchange *ex)
{
	struct downstream *f = ex->downstream;
	struct peer *up = &ex->upstream->peer;
	size_t n = buf_len(&f->base.in);
	int rc = 0;

	if (n > 0) {
		up->later = f->worker->ring;
		rc = peer_send_bytes(up, buf_at(&f->base.in), n);
		count_bytes(ex, true, n);
		buf_consume(&f->base.in, n);
		buf_release(&f->base.in);
	}
	if (rc == 0 && f->peer.eof && !up->shutting)
		rc = peer_shut(up);
	return rc;
}

void
relay_on_input(struct downstream *f)
{
	struct exchange *ex = f->ex;

	if (ex->upstream == NULL || ex->upstream->connecting) {
		downstream_gate(f);
		return;
	}
	if (hand_over_input(ex) < 0) {
		close_both(ex, true);
		return;
	}
	if (memory_full(&ex->upstream->peer))
		peer_pause(&f->peer);
	else
		peer_resume(&f->peer);
}

void
relay_greeted(struct exchange *ex, const char *data, size_t len)
{
	struct downstream *f = ex->downstream;

	relay_touch(f);
	if (f->worker->traces) {
		trace_relay(ex);
		trace_connected(ex);
	}
	count_bytes(ex, false, len);
	access_log_first(ex);
	if (peer_send_bytes(&f->peer, data, len) < 0)
		close_both(ex, true);
}

void
relay_upgraded(struct exchange *ex, const char *data, size_t len)
{
	struct downstream *f = ex->downstream;

	exchange_go(ex, EXCHANGE_RELAYING);
	ex->kind = &relay_kind;
	ex->upstream->peer.mind = true;
	f->state = DOWNSTREAM_RELAY;
	relay_touch(f);
	if (len > 0 && peer_send_bytes(&f->peer, data, len) < 0) {
		close_both(ex, true);
		return;
	}
	relay_on_input(f);
}

/* Moves one piece: returns bytes, 0 when a FIN was read, -errno. Copies, or splices while there is
 * much data: the step grows as long as the receiver keeps up. */
static ssize_t
relay_move(struct exchange *ex, struct peer *from, struct peer *to, uint32_t *step, size_t most)
{
	struct worker *w = ex->downstream->worker;
	size_t room = *step > 0 ? memory_step(to, *step) : most;
	ssize_t n = -ENOSYS;
	int rc;

	if (*step > 0 && room >= SCRATCH_BYTES && most == MEMORY_ALLOWANCE_MOST)
		n = splice_move(w, from, to, room);
	if (n > 0) {
		*step = splice_next(*step, n, to);
		return n;
	}
	if (n != -ENOSYS)
		return n;
	most = MIN(most, room);
	n = peer_read(from, w->scratch, most);
	if (n <= 0)
		return n;
	*step = splice_first(n, most);
	to->later = w->ring;
	rc = peer_send_bytes(to, w->scratch, (size_t)n);
	return rc < 0 ? rc : n;
}

/* Moves data in one direction (up: to the endpoint) while there is some. Returns 0, or -errno when
 * the connection is broken. */
static int
relay_pump(struct exchange *ex, bool up, unsigned events)
{
	struct peer *from = up ? &ex->downstream->peer : &ex->upstream->peer;
	struct peer *to = up ? &ex->upstream->peer : &ex->downstream->peer;

	for (int round = 0; round < READ_ROUNDS || events & WATCH_HUP; round++) {
		size_t most = memory_allowance(ex->downstream);
		ssize_t n = relay_move(ex, from, to, &ex->step[up], most);

		if (n == -EAGAIN)
			return events & WATCH_HUP ? -ECONNRESET : 0;
		if (n < 0)
			return (int)n;
		if (n == 0)
			return from->cut || relay_finished(ex) ? 0 : peer_shut(to);
		count_bytes(ex, up, (uint64_t)n);
		if (memory_full(to)) {
			peer_pause(from);
			return 0;
		}
		if ((size_t)n < most && !(events & (WATCH_HUP | WATCH_END)))
			return 0;
	}
	return 0;
}

/* The endpoint's TLS has ended without close_notify, perhaps through somebody on the way (RFC 8446
 * section 6.1): the client gets what came, and no end. A reset would destroy what it has not got
 * yet, of which no event tells. What it still sends goes nowhere. */
static void
relay_await_client(struct exchange *ex)
{
	struct peer *down = &ex->downstream->peer;
	struct worker *w = ex->downstream->worker;

	if (peer_is_delivered(down)) {
		access_log_end(ex, down->eof ? "--" : "SD");
		close_both(ex, true);
		return;
	}
	down->mind = true;
	peer_pause(down);
	expiry_set(&w->expiries, &ex->upstream->expiry, SPAN_OWN, w->now_ms);
}

void
relay_on_time(struct upstream_conn *b)
{
	if (b->peer.cut && b->ex->state == EXCHANGE_RELAYING)
		relay_await_client(b->ex);
}

/* Handles events of the client (up) or of the endpoint. */
static void
relay_turn(struct exchange *ex, bool up, unsigned events)
{
	struct peer *self = up ? &ex->downstream->peer : &ex->upstream->peer;
	struct peer *other = up ? &ex->upstream->peer : &ex->downstream->peer;
	int rc = 0;

	relay_touch(ex->downstream);
	if (!up)
		access_log_first(ex);
	if (events & WATCH_WRITE) {
		rc = peer_flush(self);
		if (rc == 0 && buf_len(&self->out) == 0)
			peer_resume(other);
	}
	if (rc == 0 && events & (WATCH_READ | WATCH_HUP) && !self->eof && !self->paused)
		rc = relay_pump(ex, up, events);
	else if (rc == 0 && events & WATCH_HUP)
		rc = -ECONNRESET;
	if (rc < 0) {
		access_log_end(ex, up != other->broken ? "CD" : "SD");
		close_both(ex, true);
	} else if (ex->upstream->peer.cut) {
		relay_await_client(ex);
	} else if (relay_finished(ex)) {
		access_log_end(ex, "--");
		close_both(ex, false);
	}
}

static void
relay_connected(struct exchange *ex)
{
	struct downstream *f = ex->downstream;

	ex->upstream->peer.mind = true;
	access_log_connected(ex);
	trace_connected(ex);
	if (target_is_suspect(ex->upstream->target))
		outlier_share_worked(f->worker, ex->upstream->target, true);
	if (ex->state == EXCHANGE_GREETING)
		return;
	watch_defer(f->peer.watch, false);
	if (buf_len(&f->base.in) > 0 || f->peer.eof)
		relay_on_input(f);
	else
		relay_turn(ex, true, WATCH_READ);
}

const struct exchange_kind relay_kind = {
	.connected = relay_connected,
	.dial_failed = relay_dial_failed,
};

void
relay_on_upstream(struct upstream_conn *b, unsigned events)
{
	struct exchange *ex = b->ex;

	if (ex->state == EXCHANGE_GREETING) {
		server_first_on_upstream(b);
		/* A hang-up is told once. */
		if (!(events & WATCH_HUP) || b->ex != ex || ex->state == EXCHANGE_GREETING)
			return;
	}
	relay_turn(ex, false, events);
}

/* The upstream is not connected yet: what the client sends is kept. */
static void
keep_early(struct downstream *f, unsigned events)
{
	struct worker *w = f->worker;
	ssize_t n = peer_read(&f->peer, w->scratch, memory_allowance(f));

	if (n > 0)
		buf_add(&f->base.in, w->scratch, (size_t)n);
	if ((n < 0 && n != -EAGAIN) || events & WATCH_HUP)
		downstream_close(f, true);
	else
		downstream_gate(f);
}

void
relay_on_downstream(struct downstream *f, unsigned events)
{
	struct exchange *ex = f->ex;

	if (ex->upstream == NULL || ex->upstream->connecting)
		keep_early(f, events);
	else
		relay_turn(ex, true, events);
}
