#include "lb/proxy/dial.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/core/log.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/h2_upstream.h"
#include "lb/proxy/outlier.h"
#include "lb/proxy/outlier_share.h"
#include "lb/proxy/pick.h"
#include "lb/proxy/pool.h"
#include "lb/proxy/relay.h"
#include "lb/proxy/trace.h"
#include "lb/proxy/upstream_tls.h"
#include "lb/proxy/wait_queue.h"
#include "model/backend_tls.h"

enum {
	/* for a dial by the hub or another node, including finding another route to it: more than
	 * tunnel/node/egress_client.h waits */
	FAR_CONNECT_MS = 9500,
	KNOWN_CONNECT_MS = 300, /* for an endpoint whose usual connect time is known */
	/* longer than an endpoint's delayed acknowledgement, shorter than our RTO */
	SILENT_MS = 140,
	RETRANSMITTED_MS = 500, /* shorter than the time after which a SYN is sent again */
	GIVE_UP_MS = 10000, /* for unacknowledged bytes of a request that cannot go elsewhere */
};

void
dial_report_failure(struct exchange *ex, struct target *t, enum target_fault fault)
{
	pick_avoid(ex, t);
	outlier_target(ex->downstream->worker, t, fault, ex);
}

/* --- attempts ------------------------------------------------------------------------------- */

static enum dial
nothing_left(const struct exchange *ex)
{
	return ex->upstream != NULL ? DIAL_WAIT : DIAL_FAILED;
}

/* Not the endpoint's fault; dialling another one would need the same resource. */
static void
dial_out_of_resources(struct exchange *ex, int rc)
{
	struct worker *w = ex->downstream->worker;

	ex->out_of_resources = true;
	count(&w->counters.out_of_resources, 1);
	log_limited(LOG_LEVEL_ERROR, 1, "lb", "cannot open connections to endpoints: %s",
		strerror(-rc));
}

/* Has the client its share of connections? A session more would be one; another endpoint's may
 * take the stream. */
static bool
dial_over_quota(struct exchange *ex, struct target *t)
{
	const struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	char client[IP_TEXT_MAX];

	if (ex->h2 == NULL || h2_upstream_is_first(t) ||
		fair_share_room(w->lb->connections, f->slot) > 0)
		return false;
	ex->over_quota = ex->free_retry = true;
	pick_avoid(ex, t);
	count(&w->counters.out_of_resources, 1);
	log_limited(LOG_LEVEL_WARN, 10, "lb",
		"opened no further connection to an endpoint, its client has too many; raise "
		"LimitNOFILE if it needs them client=%s",
		ip_text(&f->client, client));
	return true;
}

/* Begins a connection to one of the endpoint's addresses, which is tried first from now on. The
 * in-flight count is that of pick_next(). */
static int
dial_connect(struct exchange *ex, struct target *t, bool other)
{
	struct worker *w = ex->downstream->worker;
	int fd = -1, rc;

	t->at_other = other;
	trace_note(ex, TRACE_DIAL, t);
	rc = worker_connect(w, t, other, ex, &fd);
	if (rc < 0)
		return rc;
	count(&w->counters.dials, 1);
	upstream_conn_new(w, fd, t, ex)->at_other = other;
	return 0;
}

/* RFC 8305 with the address that connected last as the preferred one: the other one is dialled as
 * soon as this one has failed, or has not answered for a while. That is no retry. */
static bool
dial_other(struct upstream_conn *b)
{
	struct exchange *ex = b->ex;

	if (ex == NULL || b->paired || !target_has_other(b->target))
		return false;
	b->paired = true;
	if (dial_connect(ex, b->target, !b->at_other) < 0) {
		b->target->at_other = b->at_other;
		return false;
	}
	ex->upstream->paired = ex->upstream->uncounted = true;
	return true;
}

/* The connection being made to the other address, for the same exchange; NULL: none. */
static struct upstream_conn *
dial_mate(const struct upstream_conn *b)
{
	struct upstream_conn *r = b->ex != NULL ? b->ex->upstream : NULL;

	while (r != NULL && (r->target != b->target || r->at_other == b->at_other || !r->paired))
		r = r->rival;
	return r;
}

/* Takes an idle connection to t, or dials it; that connection takes the in-flight count of
 * pick_next(). DIAL_FAILED: t refused, ex->over_quota or ex->out_of_resources. */
static enum dial
dial_attempt(struct exchange *ex, struct target *t)
{
	struct worker *w = ex->downstream->worker;
	bool other = t->at_other;
	enum dial taken;
	int rc;

	target_try(t, w->now_ms);
	if (ex->h2 != NULL && h2_upstream_take(ex, t, &taken))
		return taken;
	if (ex->h2 == NULL && !ex->no_reuse && pool_get(t, ex) != NULL) {
		count(&w->counters.reuses, 1);
		trace_note(ex, TRACE_REUSE, t);
		return DIAL_READY;
	}
	if (!target_may_dial(t))
		return DIAL_HELD;
	if (dial_over_quota(ex, t))
		return DIAL_FAILED;
	rc = dial_connect(ex, t, other);
	if (rc < 0 && !sock_short_of(rc) && target_has_other(t)) {
		rc = dial_connect(ex, t, !other);
		if (rc == 0)
			ex->upstream->paired = true;
	}
	if (rc == 0) {
		if (ex->h2 != NULL)
			h2_upstream_dialling(t, ex->upstream);
		fair_queue_leave(&ex->waiter);
		return DIAL_WAIT;
	}
	if (sock_short_of(rc)) {
		dial_out_of_resources(ex, rc);
	} else {
		dial_report_failure(ex, t, TARGET_REFUSED);
		ex->free_retry = true;
	}
	return DIAL_FAILED;
}

/* As dial_attempt(), if the exchange may have another attempt; if not, t is not tried again. t
 * comes from pick_next(). */
static enum dial
try_at(struct exchange *ex, struct target *t)
{
	struct worker *w = ex->downstream->worker;
	bool first = exchange_retries(ex) == 0, free = pick_is_free(ex, t);
	enum dial d;

	if (!free && !pick_may_charge(ex)) {
		pick_undo(ex, t);
		if (ex->n_again + 1u < pick_tries(ex) && !ex->over_budget)
			count(&w->counters.over_budget, 1);
		ex->over_budget = true;
		pick_avoid(ex, t);
		return DIAL_FAILED;
	}
	d = dial_attempt(ex, t);
	if (d == DIAL_HELD || d == DIAL_FAILED)
		pick_undo(ex, t);
	if (d == DIAL_HELD)
		return d;
	if (!free) {
		ex->n_again++;
		budget_spend(&ex->group->budget, w->now_ms);
	}
	if (!first) {
		count(&w->counters.retries, 1);
		count(&ex->group->cell->retries, 1);
	}
	return d;
}

static enum dial
dial_hold(struct exchange *ex)
{
	wait_queue_wait(ex);
	return DIAL_WAIT;
}

enum dial
dial_start(struct exchange *ex, bool may_reuse)
{
	struct downstream *f = ex->downstream;

	budget_ask(&ex->group->budget, f->worker->now_ms);
	if (!wait_queue_has_waiters(ex->group))
		return dial_next(ex, may_reuse);
	ex->no_reuse = !may_reuse;
	ex->want_ms = f->worker->now_ms;
	return dial_hold(ex);
}

enum dial
dial_next(struct exchange *ex, bool may_reuse)
{
	struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	enum dial d = DIAL_FAILED;
	struct target *t;

	if (!exchange_is_relay(ex))
		exchange_go(ex, EXCHANGE_DIALLING);
	ex->no_reuse = !may_reuse;
	ex->want_ms = w->now_ms;
	while (d == DIAL_FAILED && !ex->out_of_resources && (t = pick_next(ex)) != NULL)
		d = try_at(ex, t);
	if (d == DIAL_HELD || (d == DIAL_FAILED && ex->full && ex->upstream == NULL))
		return dial_hold(ex);
	return d == DIAL_FAILED ? nothing_left(ex) : d;
}

static void
dial_outcome(struct exchange *ex, enum dial d)
{
	switch (d) {
	case DIAL_WAIT:
	case DIAL_HELD:
		return;
	case DIAL_READY:
		ex->kind->connected(ex);
		return;
	case DIAL_FAILED:
		break;
	}
	dial_gave_up(ex);
}

void
dial_gave_up(struct exchange *ex)
{
	ex->kind->dial_failed(ex);
}

void
dial_resume(struct exchange *ex)
{
	dial_outcome(ex, dial_next(ex, !exchange_is_relay(ex)));
}

/* Drops connections being made that have been tried long enough, except the oldest: its endpoint
 * may be far away. */
static void
drop_stale(struct exchange *ex)
{
	for (struct upstream_conn *b = ex->upstream, *next; b != NULL; b = next) {
		next = b->rival;
		if (next != NULL && !b->fresh)
			upstream_conn_drop(b, false);
	}
}

enum dial
dial_turn(struct exchange *ex)
{
	struct target *t = pick_next(ex);
	enum dial d;

	if (t == NULL && ex->full)
		return DIAL_HELD;
	drop_stale(ex);
	d = t == NULL ? nothing_left(ex) : try_at(ex, t);
	if (d == DIAL_HELD)
		return d;
	fair_queue_leave(&ex->waiter);
	if (t != NULL && d == DIAL_FAILED && !ex->out_of_resources)
		dial_resume(ex);
	else
		dial_outcome(ex, d);
	return d;
}

static void
dial_failed(struct upstream_conn *b, enum target_fault fault)
{
	struct exchange *ex = b->ex;
	bool youngest = ex != NULL && ex->upstream == b;
	/* If the endpoint has answered others meanwhile, only its accept queue is full, or one of
	 * its addresses out of reach. */
	bool guilty = (fault != TARGET_SILENT && !b->paired) || pick_is_mute(b);
	struct upstream_conn *mate;

	dial_other(b);
	if ((mate = dial_mate(b)) != NULL) {
		mate->hedged = false;
		upstream_conn_drop(b, false);
		return;
	}
	if (ex != NULL) {
		pick_avoid(ex, b->target);
		ex->free_retry = guilty;
	}
	if (guilty)
		outlier_target(b->worker, b->target, fault, ex);
	upstream_conn_drop(b, false);
	/* For an older one its rival is still connecting, or has failed and found no other
	 * endpoint. */
	if (youngest || (ex != NULL && ex->upstream == NULL))
		dial_resume(ex);
}

/* Only the kernel knows which of its SYNs was answered. */
static uint64_t
took_ms(const struct upstream_conn *b)
{
	uint64_t took = b->worker->now_ms - b->since_ms;
	struct tcp_info info;
	socklen_t len = sizeof info;

	if (took < RETRANSMITTED_MS ||
		getsockopt(b->peer.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return took;
	return MIN(took, (uint64_t)info.tcpi_rtt / 1000);
}

/* Its exchange has the reason for its caller. */
static void
dial_tls_failed(struct upstream_conn *b)
{
	if (b->ex == NULL)
		return;
	free(b->ex->tls_why);
	b->ex->tls_why =
		xasprintf("%s (BackendTLSPolicy %s)", b->target->tls_why, b->target->tls->policy);
}

/* As worker_connected(), with TLS where the endpoint's Service wants that. */
static int
dial_established(struct upstream_conn *b)
{
	const struct upstream_tls how = {.tls = b->own_tls ? NULL : b->target->tls,
		.session = &b->target->session,
		.protocol = b->for_h2                               ? UPSTREAM_HTTP2
			: b->ex != NULL && exchange_is_relay(b->ex) ? UPSTREAM_ANY
								    : UPSTREAM_HTTP1,
		.fn = upstream_conn_on_event,
		.arg = b};
	int rc = upstream_tls_connected(b->worker, b->target, &b->peer, &how);

	if (rc == -EPROTO)
		dial_tls_failed(b);
	return rc;
}

/* HTTP/2 was to be spoken, and the endpoint has chosen HTTP/1: no fault of its own. */
static void
dial_is_http1(struct upstream_conn *b)
{
	struct exchange *ex = b->ex;

	h2_upstream_is_http1(b->target, b->worker->now_ms);
	upstream_conn_drop(b, false);
	if (ex != NULL && ex->upstream == NULL)
		dial_resume(ex);
}

void
dial_on_event(struct upstream_conn *b)
{
	struct worker *w = b->worker;
	struct target *t = b->target;
	int rc = dial_established(b);

	if (rc == -EAGAIN)
		return;
	if (rc == -EPROTO) {
		dial_failed(b, TARGET_TLS);
		return;
	}
	if (rc < 0) { /* reset: it was accepted, and then dropped at once */
		dial_failed(
			b, rc == -ECONNRESET && !target_is_far(t) ? TARGET_RESET : TARGET_REFUSED);
		return;
	}
	if (b->for_h2 && b->peer.tls != NULL && !peer_tls_speaks(&b->peer, "h2")) {
		dial_is_http1(b);
		return;
	}
	b->connecting = false;
	upstream_conn_stale(b);
	target_widen(t);
	expiry_cancel(&b->expiry);
	peer_connected(&b->peer);
	target_connected(t, took_ms(b), w->now_ms);
	wait_queue_due(w);
	if (target_is_suspect(t) && !target_fault_needs_answer((enum target_fault)t->fault))
		outlier_share_worked(w, t, false);
	if (b->ex == NULL && b->for_h2) {
		h2_upstream_adopt(b);
		return;
	}
	if (b->ex == NULL) {
		pool_put(b);
		return;
	}
	t->at_other = b->at_other;
	upstream_conn_won(b);
	b->ex->kind->connected(b->ex);
}

/* --- time ----------------------------------------------------------------------------------- */

/* If no other endpoint could be tried, exceeding the usual time is no reason to give up. */
static uint32_t
limit_ms(const struct upstream_conn *b)
{
	const struct service *s = b->ex != NULL ? b->ex->group->service : NULL;
	uint32_t most = target_is_far(b->target) ? FAR_CONNECT_MS : b->worker->connect_ms;

	if (s != NULL && s->lb.connect_ms > 0)
		return s->lb.connect_ms;
	if (!b->target->connect_known ||
		(b->ex != NULL && !pick_another(b->ex, b->target, pick_is_mute(b))))
		return most;
	return MIN(most, MAX(4 * b->target->connect_ms, (uint32_t)KNOWN_CONNECT_MS));
}

/* Dials another endpoint, or the same one again if this exchange may dial it now: the kernel would
 * resend a lost SYN only after a second. */
static void
dial_hedge(struct upstream_conn *b)
{
	struct exchange *ex = b->ex;

	b->hedged = true;
	h2_upstream_dial_over(b);
	if (b->rival == NULL)
		count(&b->worker->counters.hedges, 1);
	if (!pick_another(ex, b->target, pick_is_mute(b))) {
		if (ex->upstream == b)
			wait_queue_wait(ex);
		return;
	}
	pick_avoid(ex, b->target);
	ex->free_retry = pick_is_mute(b);
	if (ex->free_retry)
		outlier_target(b->worker, b->target, TARGET_SILENT, ex);
	if (dial_next(ex, !exchange_is_relay(ex)) == DIAL_READY)
		ex->kind->connected(ex);
}

static void
on_dialling(struct upstream_conn *b)
{
	struct worker *w = b->worker;
	uint64_t waited = w->now_ms - b->since_ms;

	if (w->now_ms - b->from_ms >= limit_ms(b)) {
		if (b->ex != NULL)
			b->ex->timed_out = true;
		if (b->peer.tls != NULL) {
			upstream_tls_report(b->target, "no answer to the handshake in time");
			count(&w->counters.tls_failed, 1);
			dial_tls_failed(b);
		}
		dial_failed(b, TARGET_SILENT);
		return;
	}
	expiry_set(&w->expiries, &b->expiry, SPAN_DIAL, w->now_ms);
	if (waited < 3 * b->target->connect_ms)
		return;
	if (dial_other(b)) {
		b->ex->upstream->hedged = true; /* b does that, if need be */
		upstream_conn_stale(b);
		return;
	}
	if (b->fresh)
		target_narrow(b->target);
	upstream_conn_stale(b);
	if (b->ex == NULL)
		h2_upstream_dial_over(b);
	else if (!b->hedged)
		dial_hedge(b);
}

void
dial_sent(struct exchange *ex)
{
	struct worker *w = ex->downstream->worker;

	ex->upstream->since_ms = w->now_ms;
	ex->upstream->silent = ex->upstream->acked = false;
	expiry_set(&w->expiries, &ex->upstream->expiry, SPAN_ACK, w->now_ms);
}

/* The endpoint has the request and is processing it. Without keepalive nothing would show that it
 * died meanwhile. */
void
dial_keep_alive(struct upstream_conn *b)
{
	static const int on = 1, idle_s = 2, interval_s = 1, count_ = 2;

	if (b->kept_alive)
		return;
	b->kept_alive = true;
	setsockopt(b->peer.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	setsockopt(b->peer.fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
	setsockopt(b->peer.fd, IPPROTO_TCP, TCP_KEEPCNT, &count_, sizeof count_);
	setsockopt(b->peer.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* A connection that is silent says as much as a dial that is: the request goes to the other
 * address, once, and idle connections are not trusted either. */
static void
dial_move(struct upstream_conn *b)
{
	b->target->at_other = !b->at_other;
	count(&b->worker->counters.silent, 1);
	pool_clear(b->target);
	exchange_ask_again(b->ex);
}

void
dial_give_up_late(struct upstream_conn *b)
{
	static const unsigned give_up_ms = GIVE_UP_MS;

	setsockopt(b->peer.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof give_up_ms);
}

static void
dial_silent(struct upstream_conn *b)
{
	struct worker *w = b->worker;
	struct exchange *ex = b->ex;

	if (target_has_other(b->target) && ex->n_stale == 0 && exchange_may_retry(ex)) {
		dial_move(b);
		return;
	}
	if (!b->silent) {
		b->silent = true;
		if (pick_is_mute(b))
			outlier_target(w, b->target, TARGET_SILENT, ex);
		dial_give_up_late(b);
	}
	if (!exchange_may_retry(ex) || !pick_another(ex, b->target, pick_is_mute(b))) {
		expiry_set(&w->expiries, &b->expiry, SPAN_ACK, w->now_ms);
		return;
	}
	count(&w->counters.silent, 1);
	pick_avoid(ex, b->target);
	ex->free_retry = pick_is_mute(b);
	upstream_conn_close(b, true);
	dial_resume(ex);
}

static void
on_waiting(struct upstream_conn *b)
{
	struct worker *w = b->worker;
	struct tcp_info info;
	socklen_t len = sizeof info;
	uint64_t waited = w->now_ms - b->since_ms;

	if (b->ex->state != EXCHANGE_SENDING ||
		getsockopt(b->peer.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return;
	if (info.tcpi_unacked == 0) {
		b->acked = true;
		dial_keep_alive(b);
		return;
	}
	waited = MIN(waited, (uint64_t)info.tcpi_last_ack_recv);
	if (waited < SILENT_MS + 4ull * info.tcpi_rtt / 1000)
		expiry_set(&w->expiries, &b->expiry, SPAN_ACK, w->now_ms);
	else
		dial_silent(b);
}

void
dial_on_time(struct upstream_conn *b)
{
	if (b->connecting)
		on_dialling(b);
	else
		on_waiting(b);
}
