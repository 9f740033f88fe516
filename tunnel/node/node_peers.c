#include "tunnel/node/node_peers.h"

#include <stdio.h>
#include <string.h>

#include "base/core/figures.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/core/state.h"
#include "base/tls/pki.h"
#include "base/tls/tls_stream.h"
#include "model/json.h"
#include "tunnel/node/hole_punch.h"
#include "tunnel/node/tunnel_client_dial.h"

enum {
	STREAMS_MOST = 4096,
	BUCKETS = 64,
	TICK_MS = 10 * 1000,
	URGENT_MS = 100, /* between two dials, where there is no other way */
};

enum node_peer_state {
	NODE_PEER_IDLE,
	NODE_PEER_DIALLING,
	NODE_PEER_OPEN,
	NODE_PEER_SILENT, /* no new streams: it is not known whether it is there */
	NODE_PEER_RESTING, /* not reached; dialled again after the back-off */
};

static const char *const state_names[] = {
	[NODE_PEER_IDLE] = "idle",
	[NODE_PEER_DIALLING] = "dialling",
	[NODE_PEER_OPEN] = "open",
	[NODE_PEER_SILENT] = "silent",
	[NODE_PEER_RESTING] = "resting",
};
static const uint32_t state_next[] = {
	[NODE_PEER_IDLE] = STATE_TO(NODE_PEER_DIALLING),
	[NODE_PEER_DIALLING] = STATE_TO(NODE_PEER_OPEN) | STATE_TO(NODE_PEER_RESTING),
	[NODE_PEER_OPEN] =
		STATE_TO(NODE_PEER_SILENT) | STATE_TO(NODE_PEER_IDLE) | STATE_TO(NODE_PEER_RESTING),
	[NODE_PEER_SILENT] =
		STATE_TO(NODE_PEER_OPEN) | STATE_TO(NODE_PEER_IDLE) | STATE_TO(NODE_PEER_RESTING),
	[NODE_PEER_RESTING] = STATE_TO(NODE_PEER_DIALLING),
};
static const struct state_machine states = {"node-peer", "tunnel", state_names, state_next};

/* One session, until its last stream has ended. */
struct peer_conn {
	LIST_ENTRY(peer_conn) link; /* of `leaving`, once another one takes its place */
	struct node_peers *of;
	struct node_peer *peer; /* NULL: leaving */
	struct session *session;
	uint64_t since_ms;
	int64_t ends_s; /* of the other one's certificate */
	char node[254], serial[PKI_SERIAL_TEXT];
};

struct node_peer {
	LIST_ENTRY(node_peer) link;
	struct node_peers *of;
	enum node_peer_state state;
	char node[254];
	struct addr at;
	bool nat; /* it is met across NAT, and `at` is where it was the last time */
	uint64_t dials; /* so far */
	struct hole_punch *punch; /* before the dial, across NAT */
	/* for the dial, which borrows it */
	struct tunnel_client_hub to;
	struct tunnel_client_dial *dial;
	struct peer_conn *conn; /* while open or silent */
	LIST_HEAD(, node_peers_wait) waits;
	/* loop's clock: last use, last dial, end of the rest */
	uint64_t used_ms, tried_ms, until_ms;
	uint64_t backoff_ms; /* 0: the last dial worked, or there was none */
	uint64_t before_ms; /* the same before the session, until that is settled */
	char why[256];
};

struct node_peers {
	struct node_peers_config config;
	struct session_budget budget;
	struct session_limits limits, nat_limits;
	struct ssl_ctx_st *tls; /* NULL: this node has no certificate yet */
	struct timer *tick;
	LIST_HEAD(, node_peer) buckets[BUCKETS];
	LIST_HEAD(, peer_conn) leaving;
	struct session_stats past;
	uint64_t opened, failed, met, unmet, n_open;
	size_t n;
};

static uint64_t
node_peers_now(const struct node_peers *p)
{
	return loop_now_ms(p->config.loop);
}

static void
node_peer_go(struct node_peer *e, enum node_peer_state to)
{
	e->state = state_go(&states, e->state, to);
}

static const char *
node_peer_path(const struct node_peer *e)
{
	return e->nat ? "nat" : "site";
}

static struct node_peer *
node_peer_find(const struct node_peers *p, const char *node)
{
	struct node_peer *e;

	LIST_FOREACH(e, &p->buckets[hash64(node, strlen(node), 0) % BUCKETS], link)
		if (strcmp(e->node, node) == 0)
			return e;
	return NULL;
}

/* --- the end -------------------------------------------------------------------------------- */

static void
peer_conn_free(struct peer_conn *n)
{
	session_stats_add(&n->of->past, session_stats(n->session));
	session_free(&n->session);
	free(n);
}

/* Open streams finish; new ones need another session. */
static void
node_peer_retire(struct node_peer *e)
{
	struct peer_conn *n = take_ptr(&e->conn);

	e->of->n_open--;
	n->peer = NULL;
	LIST_INSERT_HEAD(&e->of->leaving, n, link);
	session_drain(n->session);
	node_peer_go(e, NODE_PEER_IDLE);
}

static void
node_peer_close(struct node_peer *e, enum node_peer_state to)
{
	struct peer_conn *n = take_ptr(&e->conn);

	e->of->n_open--;
	node_peer_go(e, to);
	peer_conn_free(n); /* its streams may be asked for again meanwhile */
}

static void
node_peer_free(struct node_peer *e)
{
	struct node_peers_wait *w;

	while ((w = LIST_FIRST(&e->waits)) != NULL)
		node_peers_leave(w);
	hole_punch_free(&e->punch);
	tunnel_client_dial_free(&e->dial);
	if (e->conn != NULL)
		peer_conn_free(take_ptr(&e->conn));
	LIST_REMOVE(e, link);
	e->of->n--;
	free(e);
}

static void
node_peer_tell_waiters(struct node_peer *e)
{
	LIST_HEAD(, node_peers_wait) told = {0};
	struct node_peers_wait *w;

	/* who is told may wait again */
	while ((w = LIST_FIRST(&e->waits)) != NULL) {
		LIST_REMOVE(w, link);
		LIST_INSERT_HEAD(&told, w, link);
	}
	while ((w = LIST_FIRST(&told)) != NULL) {
		node_peers_leave(w);
		w->done(w->arg);
	}
}

static void
node_peer_rest(struct node_peer *e, const char *why)
{
	const uint64_t now = node_peers_now(e->of),
		       first = e->nat ? NODE_PEERS_NAT_FIRST_MS : NODE_PEERS_FIRST_MS,
		       most = e->nat ? NODE_PEERS_NAT_MOST_MS : NODE_PEERS_MOST_MS;
	char clean[sizeof e->why], address[ADDR_TEXT_MAX];

	e->of->failed++;
	e->of->unmet += e->nat;
	e->backoff_ms = e->backoff_ms == 0 ? first : MIN(2 * e->backoff_ms, most);
	e->until_ms = now + e->backoff_ms;
	snprintf(e->why, sizeof e->why, "%s", log_clean(clean, sizeof clean, why));
	log_limited(LOG_LEVEL_WARN, 12, "tunnel",
		"another node cannot be reached directly; the hub carries what is for it node=%s "
		"path=%s address=%s retry_ms=%llu error=\"%s\"",
		e->node, node_peer_path(e), addr_text(&e->at, address),
		(unsigned long long)e->backoff_ms, e->why);
	node_peer_go(e, NODE_PEER_RESTING);
	node_peer_tell_waiters(e);
}

/* --- sessions ------------------------------------------------------------------------------- */

static void
on_ended(void *arg, int rc, const char *why)
{
	struct peer_conn *n = arg;
	struct node_peer *e = n->peer;
	bool refused = !session_is_settled(n->session);

	(void)rc;
	if (e == NULL) {
		LIST_REMOVE(n, link);
		peer_conn_free(n);
		return;
	}
	refused |= e->state == NODE_PEER_SILENT;
	log_limited(LOG_LEVEL_INFO, 12, "tunnel",
		"a session with another node has ended node=%s why=\"%s\"", e->node, why);
	e->conn = NULL;
	e->of->n_open--;
	if (!session_is_settled(n->session))
		e->backoff_ms = e->before_ms;
	if (refused)
		node_peer_rest(e, why);
	else
		node_peer_go(e, NODE_PEER_IDLE);
	peer_conn_free(n);
}

static void
on_draining(void *arg)
{
	struct peer_conn *n = arg;

	if (n->peer != NULL)
		node_peer_retire(n->peer);
}

static void
on_silent(void *arg, bool is_silent)
{
	struct peer_conn *n = arg;

	if (n->peer == NULL)
		return;
	node_peer_go(n->peer, is_silent ? NODE_PEER_SILENT : NODE_PEER_OPEN);
	log_limited(is_silent ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, 12, "tunnel", "%s node=%s",
		is_silent ? "another node does not answer; the hub carries what is for it"
			  : "another node answers again",
		n->node);
	if (is_silent)
		n->of->config.silent(n->of->config.arg);
	else if (n->of->config.found != NULL)
		n->of->config.found(n->of->config.arg, n->node);
}

static const struct session_events session_events = {
	.draining = on_draining, .silent = on_silent, .ended = on_ended};

/* Is it the node that was dialled, with a certificate that counts? NULL: yes; else why not. */
static const char *
node_peer_judge(const struct node_peer *e, const struct tls_stream *tls, const char *serial)
{
	const struct node_peers_config *c = &e->of->config;

	if (strcmp(tls_stream_peer(tls), e->node) != 0)
		return "the certificate there is another node's";
	return c->refuses != NULL ? c->refuses(c->arg, e->node, serial) : NULL;
}

static void
node_peer_on_open(struct node_peer *e, struct tls_stream *tls)
{
	struct node_peers *p = e->of;
	struct peer_conn *n = xcalloc(1, sizeof *n);
	struct session_setup setup = {.loop = p->config.loop,
		.role = SESSION_CLIENT,
		.budget = &p->budget,
		.limits = e->nat ? &p->nat_limits : &p->limits,
		.events = &session_events,
		.arg = n};
	const char *why;
	bool again;
	int rc = 0;

	n->of = p;
	n->peer = e;
	n->since_ms = node_peers_now(p);
	snprintf(n->node, sizeof n->node, "%s", e->node);
	n->ends_s = tls_stream_peer_ends(tls, n->serial);
	why = node_peer_judge(e, tls, n->serial);
	if (why == NULL) {
		setup.wire = transport_tls(&tls);
		rc = session_new(&setup, &n->session);
	}
	if (why != NULL || rc < 0) {
		tls_stream_free(&tls);
		free(n);
		node_peer_rest(e, why != NULL ? why : "no HTTP/2 session can be made");
		return;
	}
	e->conn = n;
	e->before_ms = e->backoff_ms;
	again = e->backoff_ms != 0 || e->nat;
	e->backoff_ms = 0;
	e->why[0] = '\0';
	p->opened++;
	p->met += e->nat;
	p->n_open++;
	node_peer_go(e, NODE_PEER_OPEN);
	log_limited(LOG_LEVEL_INFO, 12, "tunnel",
		"a session with another node is open node=%s path=%s", e->node, node_peer_path(e));
	if (again && p->config.found != NULL)
		p->config.found(p->config.arg, e->node);
	node_peer_tell_waiters(e);
}

static void
on_dialled(void *arg, struct tls_stream *tls, bool unanswered, const char *why)
{
	struct node_peer *e = arg;
	struct tunnel_client_dial *dial = take_ptr(&e->dial);
	char text[sizeof e->why];

	(void)unanswered;
	snprintf(text, sizeof text, "%s", why);
	if (tls != NULL)
		node_peer_on_open(e, tls);
	else
		node_peer_rest(e, text);
	tunnel_client_dial_free(&dial);
}

/* fd: a connection to it; -1: it is to be made. */
static void
node_peer_dial_over(struct node_peer *e, int fd)
{
	struct node_peers *p = e->of;
	const struct tunnel_client_dial_setup setup = {.loop = p->config.loop,
		.hub = &e->to,
		.mark = p->config.mark,
		.alpn = NODE_PEERS_ALPN,
		.proof = TLS_NODE,
		.timeout_ms = NODE_PEERS_DIAL_MS,
		.done = on_dialled,
		.arg = e};

	e->to = (struct tunnel_client_hub){.addr = e->at, .host = e->node, .tls = p->tls};
	if (fd >= 0)
		tunnel_client_dial_over(&e->dial, &setup, fd);
	else
		tunnel_client_dial_start(&e->dial, &setup);
}

static void
on_punched(void *arg, int fd, const struct addr *to, const char *why)
{
	struct node_peer *e = arg;
	struct hole_punch *punch = take_ptr(&e->punch);

	e->at = *to;
	if (fd >= 0)
		node_peer_dial_over(e, fd);
	else
		node_peer_rest(e, why);
	hole_punch_free(&punch);
}

static void
node_peer_punch(struct node_peer *e)
{
	const struct node_peers_config *c = &e->of->config;
	const char *why = "";
	const struct tunnel_client_hub *hub = c->hub(c->arg, &why);

	if (hub == NULL) {
		node_peer_rest(e, why);
		return;
	}
	hole_punch_start(&e->punch,
		&(struct hole_punch_setup){.loop = c->loop,
			.hub = hub,
			.mark = c->mark,
			.node = e->node,
			.done = on_punched,
			.arg = e});
}

static void
node_peer_dial(struct node_peer *e)
{
	e->tried_ms = node_peers_now(e->of);
	e->dials++;
	node_peer_go(e, NODE_PEER_DIALLING);
	if (e->nat)
		node_peer_punch(e);
	else
		node_peer_dial_over(e, -1);
}

/* --- the callers ---------------------------------------------------------------------------- */

static struct node_peer *
node_peer_of(struct node_peers *p, const char *node)
{
	struct node_peer *e = node_peer_find(p, node);

	if (e != NULL || p->n >= NODE_PEERS_MOST || strlen(node) >= sizeof e->node)
		return e;
	e = xcalloc(1, sizeof *e);
	e->of = p;
	snprintf(e->node, sizeof e->node, "%s", node);
	LIST_INIT(&e->waits);
	LIST_INSERT_HEAD(&p->buckets[hash64(node, strlen(node), 0) % BUCKETS], e, link);
	if (p->n++ == 0)
		timer_start(p->tick, TICK_MS, TICK_MS);
	return e;
}

static bool
node_peer_is_due(const struct node_peer *e, bool urgent)
{
	uint64_t now = node_peers_now(e->of);

	if (e->state == NODE_PEER_IDLE)
		return true;
	return e->state == NODE_PEER_RESTING &&
		(now >= e->until_ms || (urgent && !e->nat && now >= e->tried_ms + URGENT_MS));
}

struct session *
node_peers_session(struct node_peers *p, const struct node_peers_ask *ask)
{
	struct node_peer *e = p->tls != NULL ? node_peer_of(p, ask->node) : NULL;
	bool known = e != NULL && e->backoff_ms == 0 && ask->at.len != 0;

	if (e == NULL)
		return NULL;
	e->used_ms = node_peers_now(p);
	if (e->conn != NULL && (int64_t)(wall_ms() / 1000) >= e->conn->ends_s)
		node_peer_retire(e);
	if (e->state == NODE_PEER_OPEN)
		return e->conn->session;
	if (node_peer_is_due(e, ask->urgent)) {
		if ((e->nat = ask->at.len == 0) == false)
			e->at = ask->at;
		node_peer_dial(e);
	}
	/* Who has another way does not wait for a node that was not reached the last time. */
	if (e->state == NODE_PEER_DIALLING && ask->wait != NULL && !node_peers_waits(ask->wait) &&
		(known || (ask->urgent && !e->nat))) {
		ask->wait->of = e;
		LIST_INSERT_HEAD(&e->waits, ask->wait, link);
	}
	return NULL;
}

bool
node_peers_reached(const struct node_peers *p, const char *node)
{
	const struct node_peer *e = node_peer_find(p, node);

	return e != NULL && e->state == NODE_PEER_OPEN;
}

void
node_peers_leave(struct node_peers_wait *w)
{
	if (w->of == NULL)
		return;
	LIST_REMOVE(w, link);
	w->of = NULL;
}

const char *
node_peers_why(const struct node_peers *p, const char *node)
{
	const struct node_peer *e = node_peer_find(p, node);

	return e != NULL ? e->why : "";
}

/* --- life ----------------------------------------------------------------------------------- */

/* Calls fn for each peer, which it may free. */
static void
node_peers_each(struct node_peers *p, void (*fn)(struct node_peer *e))
{
	struct node_peer *e, *next;

	for (size_t i = 0; i < BUCKETS; i++)
		for (e = LIST_FIRST(&p->buckets[i]); e != NULL; e = next) {
			next = LIST_NEXT(e, link);
			fn(e);
		}
}

static void
node_peer_tick(struct node_peer *e)
{
	uint64_t now = node_peers_now(e->of);

	if (e->conn != NULL && session_stats(e->conn->session)->streams > 0)
		e->used_ms = now;
	if (e->conn != NULL && now - e->used_ms >= NODE_PEERS_IDLE_MS)
		node_peer_close(e, NODE_PEER_IDLE);
	if (e->state == NODE_PEER_RESTING && node_peer_is_due(e, false))
		node_peer_dial(e);
	if (e->conn == NULL && e->dial == NULL && e->punch == NULL &&
		now - e->used_ms >= NODE_PEERS_FORGET_MS)
		node_peer_free(e);
}

static void
on_tick(void *arg)
{
	struct node_peers *p = arg;

	node_peers_each(p, node_peer_tick);
	if (p->n == 0)
		timer_cancel(p->tick);
}

struct node_peers *
node_peers_new(const struct node_peers_config *config)
{
	struct node_peers *p = xcalloc(1, sizeof *p);
	unsigned heartbeat = (unsigned)config->heartbeat_ms;

	p->config = *config;
	p->limits = (struct session_limits){
		.max_streams = STREAMS_MOST, .ping_ms = heartbeat, .dead_ms = 2 * heartbeat + 1000};
	p->nat_limits = p->limits;
	p->nat_limits.probe_ms = NODE_PEERS_NAT_PROBE_MS;
	p->budget.limit = NODE_PEERS_MEMORY;
	p->tick = timer_new(config->loop, on_tick, p);
	return p;
}

void
node_peers_free(struct node_peers **out)
{
	struct node_peers *p = take_ptr(out);
	struct peer_conn *n;

	if (p == NULL)
		return;
	node_peers_each(p, node_peer_free);
	while ((n = LIST_FIRST(&p->leaving)) != NULL) {
		LIST_REMOVE(n, link);
		peer_conn_free(n);
	}
	timer_free(&p->tick);
	pki_ctx_free(&p->tls);
	free(p);
}

static void
node_peer_renew(struct node_peer *e)
{
	e->to.tls = e->of->tls; /* a dial reads it once TCP is up */
	if (e->conn != NULL)
		node_peer_retire(e);
}

void
node_peers_use(struct node_peers *p, struct ssl_ctx_st *tls)
{
	pki_ctx_ref(tls);
	pki_ctx_free(&p->tls);
	p->tls = tls;
	node_peers_each(p, node_peer_renew);
	node_peers_network(p);
}

static void
node_peer_check(struct node_peer *e)
{
	const struct node_peers_config *c = &e->of->config;

	if (e->conn != NULL && c->refuses != NULL &&
		c->refuses(c->arg, e->node, e->conn->serial) != NULL)
		node_peer_close(e, NODE_PEER_IDLE);
}

void
node_peers_check(struct node_peers *p)
{
	const struct node_peers_config *c = &p->config;
	struct peer_conn *n, *next;

	node_peers_each(p, node_peer_check);
	for (n = LIST_FIRST(&p->leaving); n != NULL && c->refuses != NULL; n = next) {
		next = LIST_NEXT(n, link);
		if (c->refuses(c->arg, n->node, n->serial) != NULL) {
			LIST_REMOVE(n, link);
			peer_conn_free(n);
		}
	}
}

static void
node_peer_wake(struct node_peer *e)
{
	e->until_ms = 0;
}

void
node_peers_network(struct node_peers *p)
{
	node_peers_each(p, node_peer_wake);
}

/* --- state and metrics ---------------------------------------------------------------------- */

static struct session_stats
node_peers_add(const struct node_peers *p)
{
	struct session_stats sum = p->past;
	const struct node_peer *e;
	const struct peer_conn *n;

	sum.streams = 0;
	for (size_t i = 0; i < BUCKETS; i++)
		LIST_FOREACH(e, &p->buckets[i], link)
			if (e->conn != NULL)
				session_stats_add(&sum, session_stats(e->conn->session));
	LIST_FOREACH(n, &p->leaving, link)
		session_stats_add(&sum, session_stats(n->session));
	return sum;
}

void
node_peers_metrics(const struct node_peers *p, struct metrics *m)
{
	static const struct figure dials[] = {
		FIGURE(struct node_peers, opened, "edgeway_peers_dials_total", "result=\"open\"",
			"Dials of other nodes, by what became of them.", NULL),
		FIGURE_ALSO(struct node_peers, failed, "result=\"failed\"", NULL),
		FIGURE(struct node_peers, met, "edgeway_peers_nat_total", "result=\"open\"",
			"Of these dials, those across NAT (mesh.direct: nat).", NULL),
		FIGURE_ALSO(struct node_peers, unmet, "result=\"failed\"", NULL),
	};

	figures_metrics(FIGURES(dials), p, m);
}

struct node_peers_sum
node_peers_sum(const struct node_peers *p)
{
	return (struct node_peers_sum){p->n_open, node_peers_add(p)};
}

void
node_peers_streams(
	const struct node_peers *p, const char *node, const char **comma, struct buf *out)
{
	const struct node_peer *e;
	const struct peer_conn *n;

	for (size_t i = 0; i < BUCKETS; i++)
		LIST_FOREACH(e, &p->buckets[i], link)
			if (e->conn != NULL)
				session_streams(e->conn->session, node, comma, out);
	LIST_FOREACH(n, &p->leaving, link)
		session_streams(n->session, node, comma, out);
}

static void
node_peer_write(const struct node_peer *e, struct buf *out)
{
	static const struct session_stats none;
	const struct session_stats *s = e->conn != NULL ? session_stats(e->conn->session) : &none;
	uint64_t now = node_peers_now(e->of);
	char address[ADDR_TEXT_MAX];

	buf_adds(out, "{\"peer\":");
	json_add_text(out, e->node);
	buf_printf(out,
		",\"direction\":\"out\",\"path\":\"%s\",\"attempts\":%llu,\"state\":\"%s\","
		"\"address\":\"%s\",\"since_s\":%llu,"
		"\"streams\":%u,\"bytes_in\":%llu,\"bytes_out\":%llu,\"rtt_ms\":%u,\"retry_ms\":"
		"%llu,\"error\":",
		node_peer_path(e), (unsigned long long)e->dials, state_names[e->state],
		e->at.len != 0 ? addr_text(&e->at, address) : "",
		(unsigned long long)(e->conn != NULL ? (now - e->conn->since_ms) / 1000 : 0),
		s->streams, (unsigned long long)s->bytes_in, (unsigned long long)s->bytes_out,
		s->rtt_ms,
		(unsigned long long)(e->state == NODE_PEER_RESTING && e->until_ms > now
				? e->until_ms - now
				: 0));
	json_add_text(out, e->why);
	buf_adds(out, "}");
}

void
node_peers_state(const struct node_peers *p, const char **comma, struct buf *out)
{
	const struct node_peer *e;

	for (size_t i = 0; i < BUCKETS; i++)
		LIST_FOREACH(e, &p->buckets[i], link) {
			buf_adds(out, *comma);
			*comma = ",\n";
			node_peer_write(e, out);
		}
}
