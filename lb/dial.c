#include "lb/dial.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/log.h"
#include "lb/affinity.h"
#include "lb/exchange.h"
#include "lb/gossip.h"
#include "lb/pool.h"
#include "lb/relay.h"
#include "lb/turn.h"

enum {
	RETRIES = 2, /* of services that say nothing */
	KNOWN_CONNECT_MS = 300, /* for an endpoint whose usual time is known */
	SILENT_MS = 140, /* more than an endpoint's delayed acknowledgement, less than our RTO */
	RETRANSMITTED_MS = 500, /* less than the time after which a SYN is sent again */
	GIVE_UP_MS = 10000, /* unacknowledged bytes of a request that cannot go elsewhere */
};

unsigned
dial_tries(const struct group *g)
{
	const struct service *s = g->service;

	if (s == NULL || s->lb.retries == RETRIES_DEFAULT)
		return 1 + RETRIES;
	return MIN(1u + s->lb.retries, (unsigned)TRIES_MAX);
}

static struct balance_ask
ask_of(const struct exchange *ex)
{
	const struct front *f = ex->front;
	struct worker *w = f->worker;
	const struct service *s = f->group->service;

	return (struct balance_ask){
		.policy = worker_policy(w, f->group),
		.now_ms = w->now_ms,
		.random = worker_random(w),
		.key = ex->key,
		.max_connections = s == NULL ? 0 : s->lb.max_connections,
		.slow_start_ms = s == NULL || s->lb.affinity_s > 0 ? 0 : s->lb.slow_start_ms,
		.hash_balance = s == NULL ? 0 : s->lb.hash_balance,
		.client = f->client_ip,
		.avoid = ex->tried,
		.n_avoid = ex->n_tried,
	};
}

/* --- whom to ask ---------------------------------------------------------- */

struct sticky {
	uint64_t seen, key;
};

static bool
is_known(const void *arg, uint64_t hash)
{
	const struct sticky *k = arg;

	return affinity_names(k->seen, k->key, hash);
}

/* The endpoint that this client was given before; it keeps it as long as that can be used. */
static struct target *
pick_sticky(struct exchange *ex, const struct balance_ask *ask)
{
	const struct front *f = ex->front;
	const struct service *s = f->group->service;
	struct affinity *a = f->worker->lb->affinity;
	struct sticky k = {.key = affinity_key(a, f->client_ip, s->fake_ip, f->group->port)};
	struct target *t = NULL, *first;

	if (affinity_find(a, k.key, ask->now_ms, s->lb.affinity_s, &k.seen))
		t = group_find(f->group, ask, is_known, &k);
	if (t != NULL)
		return t;
	t = group_pick(f->group, ask);
	if (t == NULL)
		return NULL;
	k.seen = affinity_put(a, k.key, k.seen, t->node.hash, ask->now_ms);
	first = group_find(f->group, ask, is_known, &k);
	return first != NULL ? first : t;
}

static struct target *
pick(struct exchange *ex)
{
	const struct service *s = ex->front->group->service;
	const struct balance_ask ask = ask_of(ex);
	struct target *t;

	if (ex->n_tried >= TRIES_MAX)
		return NULL;
	if (s != NULL && s->lb.affinity_s > 0)
		t = pick_sticky(ex, &ask);
	else
		t = group_pick(ex->front->group, &ask);
	ex->full = t == NULL && balance_full(&ex->front->group->balance, &ask);
	return t;
}

bool
dial_all_full(const struct exchange *ex)
{
	const struct balance *b = &ex->front->group->balance;
	const struct balance_ask ask = ask_of(ex);

	return balance_full(b, &ask) && !balance_any(b, &ask);
}

/* Second attempts are charged to the request (edgeway.io/retries) and to the service port's budget, as each is work for
 * endpoints that may have too much already. But a move is free: from an endpoint that executed nothing and is to blame for it,
 * to one that seems well. Each such failure brings its endpoint nearer to being left out, so there cannot be many; and where all
 * are out, nothing is free. */
static bool
may_charge(const struct exchange *ex)
{
	const struct front *f = ex->front;

	return ex->n_again + 1u < dial_tries(f->group) &&
		budget_left(&f->group->budget, f->worker->now_ms);
}

static bool
is_free(const struct exchange *ex, const struct target *t)
{
	return ex->n_tried == 0 || (ex->moves && t->ejections == 0);
}

/* It has not been heard of since the dial or the request: no matter whose, nothing gets through. */
static bool
is_mute(const struct back *b)
{
	return b->target->heard_ms < b->since_ms;
}

/* Could the exchange leave b for an endpoint that seems to be well and was not tried? */
static bool
another(const struct exchange *ex, const struct back *b)
{
	struct balance_node *avoid[TRIES_MAX + 1];
	struct balance_ask ask = ask_of(ex);

	if (ex->n_tried + 1u >= TRIES_MAX || !(is_mute(b) || may_charge(ex)))
		return false;
	for (size_t i = 0; i < ex->n_tried; i++)
		avoid[i] = ex->tried[i];
	avoid[ex->n_tried] = &b->target->node;
	ask.avoid = avoid;
	ask.n_avoid = ex->n_tried + 1u;
	return balance_any(&ex->front->group->balance, &ask);
}

static const char *
remedy(enum target_fault fault)
{
	switch (fault) {
	case TARGET_REFUSED:
		return "refuses connections: does its container run and listen there?";
	case TARGET_SILENT:
		return "does not answer on the network: is its node up, does a firewall drop?";
	case TARGET_RESET:
		break;
	}
	return "hangs up before it answers: see its container's log";
}

/* ex: whose request found it out, or NULL. */
static void
fault_of(struct worker *w, struct target *t, enum target_fault fault, const struct exchange *ex)
{
	char text[ADDR_TEXT_MAX];

	if (!target_failed(t, fault, w->now_ms, worker_random(w)))
		return;
	count(&w->counters.ejections, 1);
	if (ex != NULL)
		count(&ex->front->group->cell->ejections, 1);
	gossip_ejected(w, t);
	pool_clear(t);
	log_limited(LOG_LEVEL_WARN, 20, "lb",
		"an endpoint is left out for a while, it %s address=%s wait_ms=%llu", remedy(fault),
		target_text(t, text), (unsigned long long)(t->node.down_until_ms - w->now_ms));
}

static void
avoid(struct exchange *ex, struct target *t)
{
	for (size_t i = 0; i < ex->n_tried; i++) {
		if (ex->tried[i] == &t->node)
			return;
	}
	if (ex->n_tried < TRIES_MAX)
		ex->tried[ex->n_tried++] = &t->node;
}

void
dial_blame(struct exchange *ex, struct target *t, enum target_fault fault)
{
	avoid(ex, t);
	fault_of(ex->front->worker, t, fault, ex);
}

/* --- attempts ------------------------------------------------------------- */

static enum dial
nothing_left(const struct exchange *ex)
{
	return ex->back != NULL ? DIAL_WAIT : DIAL_FAILED;
}

/* No fault of the endpoint, and to dial another would need the same. */
static void
short_of(struct exchange *ex, int rc)
{
	struct worker *w = ex->front->worker;

	ex->short_of = true;
	count(&w->counters.short_of, 1);
	log_limited(LOG_LEVEL_ERROR, 1, "lb", "cannot open connections to endpoints: %s",
		strerror(-rc));
}

/* An idle connection to t, or a dial; DIAL_FAILED: t refused, or ex->short_of. */
static enum dial
attempt(struct exchange *ex, struct target *t)
{
	struct worker *w = ex->front->worker;
	const struct addr to = target_addr(t);
	int fd = -1, rc;

	target_try(t, w->now_ms);
	if (!ex->no_reuse && pool_get(t, ex) != NULL) {
		count(&w->counters.reuses, 1);
		return DIAL_READY;
	}
	if (!target_may_dial(t))
		return DIAL_HELD;
	rc = sock_connect(&to, w->lb->config.mark, &fd);
	if (rc == 0) {
		line_leave(&ex->waiter);
		count(&w->counters.dials, 1);
		back_new(w, fd, t, ex);
		return DIAL_WAIT;
	}
	if (sock_short_of(rc)) {
		short_of(ex, rc);
	} else {
		dial_blame(ex, t, TARGET_REFUSED);
		ex->moves = true;
	}
	return DIAL_FAILED;
}

/* attempt(), where the exchange may have another one there; what it may not is over. */
static enum dial
try_at(struct exchange *ex, struct target *t)
{
	struct front *f = ex->front;
	struct worker *w = f->worker;
	bool first = ex->n_tried + ex->n_stale == 0, free = is_free(ex, t);
	enum dial d;

	if (!free && !may_charge(ex)) {
		if (ex->n_again + 1u < dial_tries(f->group) && !ex->over_budget)
			count(&w->counters.over_budget, 1);
		ex->over_budget = true;
		avoid(ex, t);
		return DIAL_FAILED;
	}
	d = attempt(ex, t);
	if (d == DIAL_HELD)
		return d;
	if (!free) {
		ex->n_again++;
		budget_spend(&f->group->budget, w->now_ms);
	}
	if (!first) {
		count(&w->counters.retries, 1);
		count(&f->group->cell->retries, 1);
	}
	return d;
}

static enum dial
hold(struct exchange *ex)
{
	turn_wait(ex);
	return DIAL_WAIT;
}

enum dial
dial_start(struct exchange *ex, bool may_reuse)
{
	struct front *f = ex->front;

	budget_ask(&f->group->budget, f->worker->now_ms);
	if (!turn_crowded(f->group))
		return dial_next(ex, may_reuse);
	ex->no_reuse = !may_reuse;
	ex->want_ms = f->worker->now_ms;
	return hold(ex);
}

enum dial
dial_next(struct exchange *ex, bool may_reuse)
{
	struct front *f = ex->front;
	struct worker *w = f->worker;
	enum dial d = DIAL_FAILED;
	struct target *t;

	ex->no_reuse = !may_reuse;
	ex->want_ms = w->now_ms;
	while (d == DIAL_FAILED && !ex->short_of && (t = pick(ex)) != NULL)
		d = try_at(ex, t);
	if (d == DIAL_HELD || (d == DIAL_FAILED && ex->full && ex->back == NULL))
		return hold(ex);
	return d == DIAL_FAILED ? nothing_left(ex) : d;
}

static void
outcome(struct exchange *ex, enum dial d)
{
	switch (d) {
	case DIAL_WAIT:
	case DIAL_HELD:
		return;
	case DIAL_READY:
		exchange_connected(ex);
		return;
	case DIAL_FAILED:
		break;
	}
	dial_gave_up(ex);
}

void
dial_gave_up(struct exchange *ex)
{
	if (ex->relay)
		relay_dial_failed(ex);
	else
		exchange_dial_failed(ex);
}

static void
go_on(struct exchange *ex)
{
	outcome(ex, dial_next(ex, !ex->relay));
}

/* What it dials has been tried long enough; the oldest may have a long way, and is left. */
static void
drop_stale(struct exchange *ex)
{
	for (struct back *b = ex->back, *next; b != NULL; b = next) {
		next = b->rival;
		if (next != NULL && !b->fresh)
			back_drop(b, false);
	}
}

enum dial
dial_turn(struct exchange *ex)
{
	struct target *t = pick(ex);
	enum dial d;

	if (t == NULL && ex->full)
		return DIAL_HELD;
	drop_stale(ex);
	d = t == NULL ? nothing_left(ex) : try_at(ex, t);
	if (d == DIAL_HELD)
		return d;
	line_leave(&ex->waiter);
	if (t != NULL && d == DIAL_FAILED && !ex->short_of)
		go_on(ex);
	else
		outcome(ex, d);
	return d;
}

static void
failed(struct back *b, enum target_fault fault)
{
	struct exchange *ex = b->ex;
	bool youngest = ex != NULL && ex->back == b;
	/* Or it has answered others meanwhile: its queue of connections is full. */
	bool guilty = fault != TARGET_SILENT || is_mute(b);

	if (ex != NULL) {
		avoid(ex, b->target);
		ex->moves = guilty;
	}
	if (guilty)
		fault_of(b->worker, b->target, fault, ex);
	back_drop(b, false);
	/* An older one: its rival is under way, or has failed and found nobody else. */
	if (youngest || (ex != NULL && ex->back == NULL))
		go_on(ex);
}

/* The kernel knows which of its SYNs was answered. */
static uint64_t
took_ms(const struct back *b)
{
	uint64_t took = b->worker->now_ms - b->since_ms;
	struct tcp_info info;
	socklen_t len = sizeof info;

	if (took < RETRANSMITTED_MS ||
		getsockopt(b->peer.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return took;
	return MIN(took, (uint64_t)info.tcpi_rtt / 1000);
}

void
dial_on_event(struct back *b)
{
	struct worker *w = b->worker;
	struct target *t = b->target;
	int error = sock_error(b->peer.fd);

	if (error != 0) { /* reset: it was accepted, and then dropped at once */
		failed(b, error == ECONNRESET ? TARGET_RESET : TARGET_REFUSED);
		return;
	}
	b->connecting = false;
	back_stale(b);
	target_widen(t);
	expiry_cancel(&b->expiry);
	peer_connected(&b->peer);
	target_connected(t, took_ms(b), w->now_ms);
	turn_due(w);
	if (target_is_suspect(t) && t->fault != TARGET_RESET)
		gossip_worked(w, t, false);
	if (b->ex == NULL) {
		pool_put(b);
		return;
	}
	back_won(b);
	if (b->ex->relay)
		relay_connected(b->ex);
	else
		exchange_connected(b->ex);
}

/* --- time ----------------------------------------------------------------- */

/* Where nobody else could be asked, the usual time is no reason to give up. */
static uint32_t
limit_ms(const struct back *b)
{
	const struct service *s = b->ex != NULL ? b->ex->front->group->service : NULL;
	uint32_t most = b->worker->connect_ms;

	if (s != NULL && s->lb.connect_ms > 0)
		return s->lb.connect_ms;
	if (!b->target->connect_known || (b->ex != NULL && !another(b->ex, b)))
		return most;
	return MIN(most, MAX(4 * b->target->connect_ms, (uint32_t)KNOWN_CONNECT_MS));
}

/* Another endpoint; or the same one again, when it is this exchange's turn: a SYN that was lost would be sent again after
 * a second only. */
static void
hedge(struct back *b)
{
	struct exchange *ex = b->ex;

	b->hedged = true;
	if (b->rival == NULL)
		count(&b->worker->counters.hedges, 1);
	if (!another(ex, b)) {
		if (ex->back == b)
			turn_wait(ex);
		return;
	}
	avoid(ex, b->target);
	ex->moves = is_mute(b);
	if (ex->moves)
		fault_of(b->worker, b->target, TARGET_SILENT, ex);
	if (dial_next(ex, !ex->relay) == DIAL_READY)
		exchange_connected(ex);
}

static void
on_dialling(struct back *b)
{
	struct worker *w = b->worker;
	uint64_t waited = w->now_ms - b->since_ms;

	if (w->now_ms - b->from_ms >= limit_ms(b)) {
		if (b->ex != NULL)
			b->ex->timed_out = true;
		failed(b, TARGET_SILENT);
		return;
	}
	expiry_set(&w->expiries, &b->expiry, SPAN_DIAL, w->now_ms);
	if (waited < 3 * b->target->connect_ms)
		return;
	if (b->fresh)
		target_narrow(b->target);
	back_stale(b);
	if (b->ex != NULL && !b->hedged)
		hedge(b);
}

void
dial_sent(struct exchange *ex)
{
	struct worker *w = ex->front->worker;

	ex->back->since_ms = w->now_ms;
	ex->back->silent = ex->back->acked = false;
	expiry_set(&w->expiries, &ex->back->expiry, SPAN_ACK, w->now_ms);
}

/* It has the request and thinks. Should it die meanwhile, nobody would tell. */
static void
keep_alive(struct back *b)
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

static void
silent(struct back *b)
{
	static const unsigned give_up_ms = GIVE_UP_MS;
	struct worker *w = b->worker;
	struct exchange *ex = b->ex;

	if (!b->silent) {
		b->silent = true;
		if (is_mute(b))
			fault_of(w, b->target, TARGET_SILENT, ex);
		setsockopt(
			b->peer.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof give_up_ms);
	}
	if (!exchange_may_retry(ex) || !another(ex, b)) {
		expiry_set(&w->expiries, &b->expiry, SPAN_ACK, w->now_ms);
		return;
	}
	count(&w->counters.silent, 1);
	avoid(ex, b->target);
	ex->moves = is_mute(b);
	back_close(b, true);
	go_on(ex);
}

static void
on_waiting(struct back *b)
{
	struct worker *w = b->worker;
	struct tcp_info info;
	socklen_t len = sizeof info;
	uint64_t waited = w->now_ms - b->since_ms;

	if (b->ex->relay || b->ex->started ||
		getsockopt(b->peer.fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
		return;
	if (info.tcpi_unacked == 0) {
		b->acked = true;
		keep_alive(b);
		return;
	}
	waited = MIN(waited, (uint64_t)info.tcpi_last_ack_recv);
	if (waited < SILENT_MS + 4ull * info.tcpi_rtt / 1000)
		expiry_set(&w->expiries, &b->expiry, SPAN_ACK, w->now_ms);
	else
		silent(b);
}

void
dial_on_time(struct back *b)
{
	if (b->connecting)
		on_dialling(b);
	else
		on_waiting(b);
}
