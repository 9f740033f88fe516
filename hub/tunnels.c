#include "hub/tunnels.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "hub/route.h"
#include "model/json.h"

enum {
	BUCKETS = 4096,
	HEARTBEAT_MS = 4000,
	STREAMS_MOST = 4096, /* of one tunnel */
	HURRY_MS = 1000, /* for a handshake, while they are too many */
	SWEEP_MS = 1000,
};

struct tunnel {
	TAILQ_ENTRY(tunnel) link; /* of handshakes, or of all that are open */
	struct tunnel *next; /* of the bucket: those that came later first */
	struct tunnels *of;
	struct tls_stream *tls; /* until the handshake is done */
	struct session *session;
	char *node;
	char serial[PKI_SERIAL_TEXT], address[ADDR_TEXT_MAX];
	int64_t ends_s; /* its certificate, seconds since 1970 */
	uint64_t came; /* order of coming at this hub */
	uint64_t epoch; /* among all hubs */
	uint64_t since_ms;
	bool older; /* finishes what it has */
	bool leaving; /* the node has said that it takes no new streams */
};

TAILQ_HEAD(tunnel_ring, tunnel);

struct tunnels {
	struct tunnels_setup setup;
	struct session_budget budget;
	struct session_limits limits;
	struct timer *sweep, *drained;
	struct tunnel_ring handshakes, open;
	size_t n_handshakes, n_open;
	struct tunnel *buckets[BUCKETS];
	uint64_t last; /* the highest `came` and `epoch` */
	bool draining;
	void (*done)(void *arg);
	void *done_arg;
	struct session_stats past; /* of sessions that have ended */
	uint64_t opened, failed, refused, replaced, late, cut, dead, missed;
};

static struct tunnel **
bucket(struct tunnels *t, const char *node)
{
	return &t->buckets[hash64(node, strlen(node), 0) % BUCKETS];
}

/* The next tunnel of the node, the newest first; begin with the bucket. */
static struct tunnel *
of_node(struct tunnel *at, const char *node)
{
	while (at != NULL && strcmp(at->node, node) != 0)
		at = at->next;
	return at;
}

static struct tunnel *
newest(const struct tunnels *t, const char *node)
{
	return of_node(t->buckets[hash64(node, strlen(node), 0) % BUCKETS], node);
}

/* The one that takes the node's new streams; NULL: none. */
static const struct tunnel *
taking(const struct tunnels *t, const char *node)
{
	const struct tunnel *u = t->draining ? NULL : newest(t, node);

	while (u != NULL && (u->leaving || u->older))
		u = of_node(u->next, node);
	return u;
}

static void
tell_changed(const struct tunnels *t, const char *node)
{
	if (t->setup.changed != NULL)
		t->setup.changed(t->setup.others, node);
}

/* --- their end -------------------------------------------------------------------------------------- */

static void
tunnel_free(struct tunnel *u)
{
	session_free(&u->session);
	tls_stream_free(&u->tls);
	free(u->node);
	free(u);
}

static void
say_drained(struct tunnels *t)
{
	if (t->done != NULL && t->n_open == 0)
		timer_start(t->drained, 0, 0);
}

static void
add_past(struct session_stats *to, const struct session_stats *s)
{
	to->opened += s->opened;
	to->refused += s->refused;
	to->resets_sent += s->resets_sent;
	to->resets_received += s->resets_received;
	to->bytes_in += s->bytes_in;
	to->bytes_out += s->bytes_out;
	to->stalls += s->stalls;
	to->pings += s->pings;
	to->saved += s->saved;
}

/* The streams are told first: what they open meanwhile must not land here. */
static void
drop(struct tunnel *u)
{
	struct tunnels *t = u->of;
	struct tunnel **at = bucket(t, u->node);
	auto_free char *node = take_ptr(&u->node);

	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	TAILQ_REMOVE(&t->open, u, link);
	t->n_open--;
	add_past(&t->past, session_stats(u->session));
	tunnel_free(u);
	tell_changed(t, node);
	say_drained(t);
}

static void
cut(struct tunnel *u, const char *why)
{
	log_warn("hub", "tunnel cut node=%s peer=%s streams=%u why=\"%s\"", u->node, u->address,
		session_stats(u->session)->streams, why);
	u->of->cut++;
	drop(u);
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct tunnel *u = arg;

	u->of->dead += rc == -ETIMEDOUT;
	log_info("hub", "tunnel closed node=%s peer=%s epoch=%llu why=\"%s\"", u->node, u->address,
		(unsigned long long)u->epoch, why);
	drop(u);
}

static void
on_draining(void *arg)
{
	struct tunnel *u = arg;

	u->leaving = true;
	tell_changed(u->of, u->node);
}

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	const struct tunnel *u = arg;
	const struct tunnels_setup *setup = &u->of->setup;

	return setup->opened(setup->opened_arg, u->node, st, request, reason);
}

static const struct session_events session_events = {.draining = on_draining, .ended = on_ended};
static const struct session_events forward_events = {.opened = on_opened, .ended = on_ended};

/* --- their beginning -------------------------------------------------------------------------------- */

static void
forget_handshake(struct tunnel *u)
{
	TAILQ_REMOVE(&u->of->handshakes, u, link);
	u->of->n_handshakes--;
}

static void
turn_away(struct tunnel *u, const char *node, const char *why)
{
	log_limited(LOG_LEVEL_WARN, 20, "hub", "tunnel refused node=%s peer=%s reason=\"%s\"", node,
		u->address, why);
	u->of->refused++;
	forget_handshake(u);
	tunnel_free(u);
}

static void
retire(struct tunnel *u)
{
	if (u->older)
		return;
	u->older = true;
	u->of->replaced++;
	session_drain(u->session);
}

/* Older ones of the node finish what they have, but for those too many. */
static void
retire_older(struct tunnel *u)
{
	struct tunnel *at = u->next, *next;
	unsigned n = 0;

	for (; (at = of_node(at, u->node)) != NULL; at = next) {
		next = at->next;
		if (++n > TUNNELS_OLDER_MOST)
			cut(at, "too many newer tunnels of this node");
		else
			retire(at);
	}
}

/* Above all that is known of the node: hubs whose clocks differ agree all the same. */
static uint64_t
next_epoch(const struct tunnel *u)
{
	const struct tunnels *t = u->of;
	const struct tunnel *last = newest(t, u->node);
	uint64_t above = last != NULL ? last->epoch : 0;

	if (t->setup.claimed != NULL)
		above = MAX(above, t->setup.claimed(t->setup.others, u->node));
	return MAX(u->came, above + 1);
}

static void
insert(struct tunnel *u)
{
	struct tunnels *t = u->of;
	struct tunnel **at = bucket(t, u->node);

	while (*at != NULL && (*at)->came > u->came)
		at = &(*at)->next;
	u->next = *at;
	*at = u;
	forget_handshake(u);
	TAILQ_INSERT_TAIL(&t->open, u, link);
	t->n_open++;
}

static const char *
objection(struct tunnel *u)
{
	const struct tunnels *t = u->of;
	const char *node = tls_stream_peer(u->tls);
	const struct tunnel *newer;

	u->ends_s = tls_stream_peer_ends(u->tls, u->serial);
	if (!node_name_ok(node))
		return "the certificate does not name a node";
	if (t->setup.refuses != NULL && t->setup.refuses(t->setup.arg, node, u->serial))
		return "the certificate was revoked";
	if (t->draining)
		return "this hub stops";
	if (t->n_open >= t->setup.most)
		return "too many tunnels";
	newer = newest(t, node);
	return newer != NULL && newer->came > u->came ? "the node has a newer tunnel" : NULL;
}

static void
on_shaken(struct tunnel *u)
{
	struct tunnels *t = u->of;
	const char *why = objection(u);
	struct session_setup setup = {
		.loop = t->setup.loop,
		.role = t->setup.opened != NULL ? SESSION_SERVER : SESSION_CLIENT,
		.budget = &t->budget,
		.squeeze = t->setup.squeeze,
		.limits = &t->limits,
		.events = t->setup.opened != NULL ? &forward_events : &session_events,
		.arg = u,
	};

	if (why != NULL) {
		const char *name = tls_stream_peer(u->tls);

		turn_away(u, node_name_ok(name) ? name : "?", why);
		return;
	}
	u->node = xstrdup(tls_stream_peer(u->tls));
	setup.wire = wire_tls(&u->tls);
	if (session_new(&setup, &u->session) < 0) {
		turn_away(u, u->node, "no HTTP/2 session can be made");
		return;
	}
	u->since_ms = loop_now_ms(t->setup.loop);
	t->opened++;
	u->epoch = next_epoch(u);
	t->last = MAX(t->last, u->epoch);
	insert(u);
	log_info("hub", "%s open node=%s peer=%s epoch=%llu",
		t->setup.opened != NULL ? "way of a node to others" : "tunnel", u->node, u->address,
		(unsigned long long)u->epoch);
	retire_older(u);
	tell_changed(t, u->node);
}

static void
on_tls(void *arg, enum tls_event event)
{
	struct tunnel *u = arg;

	if (event == TLS_OPEN) {
		on_shaken(u);
		return;
	}
	log_limited(LOG_LEVEL_WARN, 20, "hub", "tunnel refused node=? peer=%s reason=\"%s\"",
		u->address, tls_stream_why(u->tls));
	u->of->failed++;
	forget_handshake(u);
	tunnel_free(u);
}

/* Those that take their time make room. */
static bool
room(struct tunnels *t)
{
	struct tunnel *u = TAILQ_FIRST(&t->handshakes);

	if (t->n_handshakes < t->setup.handshakes_most)
		return true;
	if (loop_now_ms(t->setup.loop) - u->since_ms < HURRY_MS)
		return false;
	turn_away(u, "?", "the TLS handshake took too long while many others wait");
	return true;
}

static void
tell_address(int fd, char text[ADDR_TEXT_MAX])
{
	struct addr a = {.len = sizeof a.in6};

	if (getpeername(fd, &a.sa, &a.len) < 0)
		strcpy(text, "?");
	else
		addr_text(&a, text);
}

void
tunnels_adopt(struct tunnels *t, int fd)
{
	struct tls_setup setup = {
		.loop = t->setup.loop,
		.fd = fd,
		.ctx = t->setup.tls,
		.alpn = t->setup.opened != NULL ? TUNNEL_ALPN_FORWARD : TUNNEL_ALPN_REVERSE,
		.on = on_tls,
	};
	struct err err = {0};
	struct tunnel *u;

	if (t->draining || !room(t)) {
		t->refused++;
		log_limited(LOG_LEVEL_WARN, 6, "hub", "a tunnel was turned away: %s",
			t->draining ? "this hub stops" : "too many handshakes are under way");
		close(fd);
		return;
	}
	u = xcalloc(1, sizeof *u);
	u->of = t;
	u->came = t->last = MAX(t->last + 1, wall_ms());
	u->since_ms = loop_now_ms(t->setup.loop);
	tell_address(fd, u->address);
	setup.arg = u;
	TAILQ_INSERT_TAIL(&t->handshakes, u, link);
	t->n_handshakes++;
	if (tls_stream_new(&setup, &u->tls, &err) < 0)
		turn_away(u, "?", err.text);
}

void
tunnels_renew(struct tunnels *t, struct ssl_ctx_st *tls)
{
	t->setup.tls = tls;
}

/* --- certificates ------------------------------------------------------------------------------------ */

void
tunnels_check(struct tunnels *t)
{
	int64_t now_s = (int64_t)(wall_ms() / 1000);
	struct tunnel *u, *next;

	for (u = TAILQ_FIRST(&t->open); u != NULL; u = next) {
		next = TAILQ_NEXT(u, link);
		if (now_s >= u->ends_s)
			cut(u, "the certificate of this node has expired");
		else if (t->setup.refuses != NULL &&
			t->setup.refuses(t->setup.arg, u->node, u->serial))
			cut(u, "the certificate of this node was revoked");
	}
}

static void
on_sweep(void *arg)
{
	tunnels_check(arg);
}

unsigned
tunnels_revoked(struct tunnels *t, const char *node)
{
	struct tunnel *at = newest(t, node), *next;
	unsigned n = 0;

	for (; at != NULL; at = next) {
		next = of_node(at->next, node);
		if (t->setup.refuses == NULL || !t->setup.refuses(t->setup.arg, node, at->serial))
			continue;
		cut(at, "the certificate of this node was revoked");
		n++;
	}
	return n;
}

/* --- streams ----------------------------------------------------------------------------------------- */

int
tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	struct tunnel *u = newest(t, node);
	int rc = -ENOTCONN;

	if (t->draining)
		return -ESHUTDOWN;
	for (; u != NULL; u = of_node(u->next, node)) {
		rc = session_open(u->session, request, events, arg, out);
		if (rc != -ESHUTDOWN)
			break;
	}
	t->missed += rc == -ENOTCONN;
	return rc;
}

bool
tunnels_have(const struct tunnels *t, const char *node)
{
	return taking(t, node) != NULL;
}

uint64_t
tunnels_epoch(const struct tunnels *t, const char *node)
{
	const struct tunnel *u = taking(t, node);

	return u != NULL ? u->epoch : 0;
}

void
tunnels_each(
	const struct tunnels *t, void (*fn)(void *arg, const char *node, uint64_t epoch), void *arg)
{
	const struct tunnel *u;

	TAILQ_FOREACH(u, &t->open, link)
	{
		if (u == taking(t, u->node))
			fn(arg, u->node, u->epoch);
	}
}

void
tunnels_yield(struct tunnels *t, const char *node, uint64_t epoch)
{
	struct tunnel *u = newest(t, node);
	bool did = false;

	for (; u != NULL; u = of_node(u->next, node)) {
		if (u->older || u->epoch >= epoch)
			continue;
		log_info("hub",
			"another replica has a newer tunnel; this one finishes what it has node=%s "
			"peer=%s epoch=%llu newer=%llu",
			node, u->address, (unsigned long long)u->epoch, (unsigned long long)epoch);
		retire(u);
		did = true;
	}
	if (did)
		tell_changed(t, node);
}

/* --- life -------------------------------------------------------------------------------------------- */

static void
on_drained(void *arg)
{
	struct tunnels *t = arg;
	void (*done)(void *) = t->done;

	t->done = NULL;
	if (done != NULL)
		done(t->done_arg);
}

struct tunnels *
tunnels_new(const struct tunnels_setup *setup)
{
	struct tunnels *t = xcalloc(1, sizeof *t);
	unsigned heartbeat;

	t->setup = *setup;
	if (t->setup.heartbeat_ms == 0)
		t->setup.heartbeat_ms = HEARTBEAT_MS;
	if (t->setup.most == 0)
		t->setup.most = TUNNELS_MOST;
	if (t->setup.handshakes_most == 0)
		t->setup.handshakes_most = t->setup.most / 8;
	heartbeat = (unsigned)t->setup.heartbeat_ms;
	t->limits = (struct session_limits){STREAMS_MOST, heartbeat, 2 * heartbeat + 1000};
	t->budget.limit = setup->memory_limit != 0 ? setup->memory_limit : TUNNELS_MEMORY;
	TAILQ_INIT(&t->handshakes);
	TAILQ_INIT(&t->open);
	t->drained = timer_new(setup->loop, on_drained, t);
	t->sweep = timer_new(setup->loop, on_sweep, t);
	timer_start(t->sweep, SWEEP_MS, SWEEP_MS);
	return t;
}

static void
end_handshakes(struct tunnels *t)
{
	struct tunnel *u;

	while ((u = TAILQ_FIRST(&t->handshakes)) != NULL) {
		forget_handshake(u);
		tunnel_free(u);
	}
}

void
tunnels_free(struct tunnels **out)
{
	struct tunnels *t = *out; /* nulled at the end: streams' owners may ask for another */

	if (t == NULL)
		return;
	t->draining = true;
	t->done = NULL;
	t->setup.changed = NULL;
	end_handshakes(t);
	while (!TAILQ_EMPTY(&t->open))
		drop(TAILQ_FIRST(&t->open));
	timer_free(&t->sweep);
	timer_free(&t->drained);
	free(t);
	*out = NULL;
}

void
tunnels_drain(struct tunnels *t, void (*done)(void *arg), void *arg)
{
	struct tunnel *u;

	t->draining = true;
	t->done = done;
	t->done_arg = arg;
	end_handshakes(t);
	TAILQ_FOREACH(u, &t->open, link)
	{
		session_drain(u->session);
		tell_changed(t, u->node);
	}
	say_drained(t);
}

/* --- telling ----------------------------------------------------------------------------------------- */

size_t
tunnels_count(const struct tunnels *t)
{
	const struct tunnel *u;
	size_t n = 0;

	TAILQ_FOREACH(u, &t->open, link)
	{
		n += !u->older && !u->leaving;
	}
	return n;
}

void
tunnels_state(const struct tunnels *t, struct buf *out)
{
	uint64_t now = loop_now_ms(t->setup.loop);
	const struct tunnel *u;
	const char *comma = "";

	buf_adds(out, "[");
	TAILQ_FOREACH(u, &t->open, link)
	{
		const struct session_stats *s = session_stats(u->session);

		buf_printf(out, "%s{\"node\":", comma);
		json_add_text(out, u->node);
		buf_printf(out,
			",\"address\":\"%s\",\"state\":\"%s\",\"streams\":%u,\"rtt_ms\":%u,"
			"\"bytes_in\":%llu,\"bytes_out\":%llu,\"opened\":%llu,\"stalls\":%llu,"
			"\"since_s\":%llu,\"epoch\":%llu,\"certificate_expires\":\"",
			u->address,
			u->leaving         ? "leaving"
				: u->older ? "older"
					   : "open",
			s->streams, s->rtt_ms, (unsigned long long)s->bytes_in,
			(unsigned long long)s->bytes_out, (unsigned long long)s->opened,
			(unsigned long long)s->stalls,
			(unsigned long long)((now - u->since_ms) / 1000),
			(unsigned long long)u->epoch);
		buf_add_utc(out, u->ends_s);
		buf_adds(out, "\"}");
		comma = ",";
	}
	buf_adds(out, "]");
}

static void
count_streams(const struct session_stats *s, struct metrics *m)
{
	static const char bytes[] = "edgeway_tunnel_bytes_total",
			  help[] = "Payload carried, as this hub sees it.";

	metric_counter(m, "edgeway_tunnel_streams_opened_total", "Streams opened to nodes.", NULL,
		s->opened);
	metric_gauge(m, "edgeway_tunnel_streams", "Streams that are open.", NULL, s->streams);
	metric_counter(m, "edgeway_tunnel_resets_total", "Streams that were reset.", "by=\"hub\"",
		s->resets_sent);
	metric_counter(m, "edgeway_tunnel_resets_total", "Streams that were reset.", "by=\"node\"",
		s->resets_received);
	metric_counter(m, bytes, help, "direction=\"from_node\"", s->bytes_in);
	metric_counter(m, bytes, help, "direction=\"to_node\"", s->bytes_out);
	metric_counter(m, "edgeway_tunnel_stalls_total",
		"Times that a stream took no more for a while.", NULL, s->stalls);
	metric_counter(m, "edgeway_tunnel_saved_bytes_total",
		"Bytes of clear text that tunnel.compress kept off the wire, both ways.", NULL,
		s->saved);
	metric_counter(m, "edgeway_tunnel_pings_total", "Pings sent.", NULL, s->pings);
}

static void
count_ends(const struct tunnels *t, struct metrics *m)
{
	static const char
		ends[] = "edgeway_tunnel_connections_total",
		help[] = "Connections of nodes that asked for a tunnel, by what became of it.";

	metric_counter(m, ends, help, "result=\"open\"", t->opened);
	metric_counter(m, ends, help, "result=\"refused\"", t->refused);
	metric_counter(m, ends, help, "result=\"failed\"", t->failed);
	metric_counter(m, "edgeway_tunnel_replaced_total",
		"Tunnels that a newer one of the node has replaced.", NULL, t->replaced);
	metric_counter(m, "edgeway_tunnel_cut_total",
		"Tunnels cut: certificate revoked or expired, or too many of a node.", NULL,
		t->cut);
	metric_counter(
		m, "edgeway_tunnel_dead_total", "Tunnels whose node fell silent.", NULL, t->dead);
	metric_counter(m, "edgeway_tunnel_missed_total",
		"Streams that found no tunnel of their node.", NULL, t->missed);
}

void
tunnels_metrics(const struct tunnels *t, struct metrics *m)
{
	struct session_stats sum = t->past;
	const struct tunnel *u;
	char label[300];

	sum.streams = 0;
	TAILQ_FOREACH(u, &t->open, link)
	{
		const struct session_stats *s = session_stats(u->session);

		add_past(&sum, s);
		sum.streams += s->streams;
	}
	metric_gauge(m, "edgeway_tunnel_nodes", "Nodes with a tunnel that takes streams.", NULL,
		(double)tunnels_count(t));
	metric_gauge(m, "edgeway_tunnel_handshakes", "Tunnels under way.", NULL,
		(double)t->n_handshakes);
	count_streams(&sum, m);
	count_ends(t, m);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, and granted beyond the base windows.", "what=\"held\"",
		(double)t->budget.held);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, and granted beyond the base windows.", "what=\"granted\"",
		(double)t->budget.granted);
	TAILQ_FOREACH(u, &t->open, link)
	{
		if (!u->older)
			metric_gauge(m, "edgeway_tunnel_rtt_seconds",
				"Round trip to the node, by its last ping.",
				metric_label(label, sizeof label, "node", u->node),
				session_stats(u->session)->rtt_ms / 1000.0);
	}
}
