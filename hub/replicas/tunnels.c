#include "hub/replicas/tunnels_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/core/sock_paths.h"
#include "hub/port/route.h"

enum {
	HEARTBEAT_MS = 4000,
	STREAMS_MOST = 4096, /* per tunnel */
	SWEEP_MS = 1000,
	RESETS_PER_S = 1000, /* calls that a node may give up */
	VOUCHED_MS = 60 * 1000, /* meanwhile the newer tunnel may be lost and come back */
};

static struct tunnel **
tunnels_bucket(struct tunnels *t, const char *node)
{
	return &t->buckets[hash64(node, strlen(node), 0) % TUNNELS_BUCKETS];
}

/* The next tunnel of the node, in the order of the chain; start with the bucket's chain. */
static struct tunnel *
of_node(struct tunnel *at, const char *node)
{
	while (at != NULL && strcmp(at->node, node) != 0)
		at = at->next;
	return at;
}

static struct tunnel *
tunnels_newest(const struct tunnels *t, const char *node)
{
	return of_node(t->buckets[hash64(node, strlen(node), 0) % TUNNELS_BUCKETS], node);
}

bool
tunnels_takes(const struct tunnel *u)
{
	return !u->leaving && !u->older && !tunnel_session_is_silent(u->session);
}

/* The tunnel that takes the node's new streams; NULL: none. */
static const struct tunnel *
tunnels_taking(const struct tunnels *t, const char *node)
{
	const struct tunnel *u = t->draining ? NULL : tunnels_newest(t, node);

	while (u != NULL && !tunnels_takes(u))
		u = of_node(u->next, node);
	return u;
}

static void
tell_changed(const struct tunnels *t, const char *node)
{
	if (t->setup.changed != NULL)
		t->setup.changed(t->setup.others, node);
}

/* --- end of a tunnel ------------------------------------------------------------------------ */

static void
tunnel_free(struct tunnel *u)
{
	tunnel_session_free(&u->session, &u->of->past);
	tls_handshake_free(&u->handshake);
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
tell_news(const struct tunnels *t, const char *node, enum tunnel_news news)
{
	if (t->setup.news != NULL)
		t->setup.news(t->setup.arg, node, news);
}

/* Removes the tunnel from its bucket first: when the owners of its streams are told and open new
 * ones, these must not use it. */
static void
tunnels_drop(struct tunnel *u, int rc)
{
	struct tunnels *t = u->of;
	struct tunnel **at = tunnels_bucket(t, u->node);
	auto_free char *node = take_ptr(&u->node);

	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	TAILQ_REMOVE(&t->open, u, link);
	t->n_open--;
	if (tunnels_newest(t, node) == NULL) {
		if (!u->standby)
			tunnels_note_lost(t, node, rc);
		tell_news(t, node, TUNNEL_GONE);
	}
	tunnel_free(u);
	tell_changed(t, node);
	say_drained(t);
}

static void
tunnels_cut(struct tunnel *u, const char *why)
{
	log_limited(LOG_LEVEL_WARN, TUNNELS_LOGGED, "hub",
		"tunnel cut node=%s peer=%s streams=%u why=\"%s\"", u->node, u->address,
		tunnel_session_count(u->session), why);
	u->of->cut++;
	tunnels_drop(u, -EKEYREVOKED);
}

/* A broken agent or an attack: useless to everybody, and the next tunnel would be flooded, too. */
static void
tunnel_flooded(const struct tunnel *u, const char *why)
{
	const struct tunnels_setup *setup = &u->of->setup;

	log_limited(LOG_LEVEL_WARN, TUNNELS_LOGGED, "hub",
		"tunnel cut, and the node gets no other one for %d s: it floods this hub; update "
		"its "
		"agent, or revoke it if its certificate is in other hands (edgewayctl node revoke) "
		"node=%s peer=%s why=\"%s\"",
		FLOODS_REST_MS / 1000, u->node, u->address, why);
	if (setup->floods != NULL)
		floods_note(setup->floods, u->node, loop_now_ms(setup->loop));
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct tunnel *u = arg;

	if (rc == -EDQUOT)
		tunnel_flooded(u, why);
	else
		log_limited(LOG_LEVEL_INFO, TUNNELS_LOGGED, "hub",
			"tunnel closed node=%s peer=%s epoch=%llu why=\"%s\"", u->node, u->address,
			(unsigned long long)u->epoch, why);
	tunnels_drop(u, rc);
}

static void
on_draining(void *arg)
{
	struct tunnel *u = arg;

	u->leaving = true;
	tell_changed(u->of, u->node);
}

/* Until the tunnel answers again, new streams take other routes to the node. */
static void
on_silent(void *arg, bool is_silent)
{
	struct tunnel *u = arg;

	u->of->silent += is_silent;
	log_limited(LOG_LEVEL_INFO, TUNNELS_LOGGED, "hub", "%s node=%s peer=%s streams=%u",
		is_silent
			? "a tunnel answers neither a stream nor a ping; new streams go another way"
			: "a tunnel answers again",
		u->node, u->address, tunnel_session_count(u->session));
	tell_changed(u->of, u->node);
}

static void
on_asked(void *arg)
{
	const struct tunnel *u = arg;

	tell_news(u->of, u->node, TUNNEL_ASKS);
}

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	const struct tunnel *u = arg;
	const struct tunnels_setup *setup = &u->of->setup;

	return setup->opened(setup->opened_arg, u->node, st, request, reason);
}

static const struct session_events session_events = {
	.draining = on_draining, .asked = on_asked, .silent = on_silent, .ended = on_ended};
static const struct session_events forward_events = {.opened = on_opened, .ended = on_ended};

/* --- start of a tunnel ---------------------------------------------------------------------- */

static void
forget_handshake(struct tunnel *u)
{
	TAILQ_REMOVE(&u->of->handshakes, u, link);
	preauth_leave(&u->place);
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
tunnels_retire(struct tunnel *u)
{
	if (u->older)
		return;
	u->older = true;
	u->of->replaced++;
	tunnel_session_drain(u->session);
}

/*
 * Older tunnels of the node finish their streams; too many of them are cut. If the node opens the
 * streams, it decides itself which tunnel to leave: an agent that takes over has its own tunnel
 * next to that of the former agent, which needs its tunnel until it has finished.
 */
static void
retire_older(struct tunnel *u)
{
	struct tunnel *at = u->next, *next;
	unsigned n = 0;

	for (; (at = of_node(at, u->node)) != NULL; at = next) {
		next = at->next;
		if (at->standby != u->standby)
			continue;
		if (++n > TUNNELS_OLDER_MOST)
			tunnels_cut(at, "too many newer tunnels of this node");
		else if (u->of->setup.opened == NULL)
			tunnels_retire(at);
	}
}

/* Higher than every known epoch of the node, so that hubs with different clocks agree. */
static uint64_t
next_epoch(const struct tunnel *u)
{
	const struct tunnels *t = u->of;
	const struct tunnel *last = tunnels_newest(t, u->node);
	uint64_t above = last != NULL ? last->epoch : 0;

	if (u->standby)
		return u->came / 2; /* lower than that of any other tunnel, whichever is newer */
	if (t->setup.claimed != NULL)
		above = MAX(above, t->setup.claimed(t->setup.others, u->node));
	return MAX(u->came, above + 1);
}

static void
tunnels_insert(struct tunnel *u)
{
	struct tunnels *t = u->of;
	struct tunnel **at = tunnels_bucket(t, u->node);

	while (*at != NULL && ((*at)->standby != u->standby ? u->standby : (*at)->came > u->came))
		at = &(*at)->next;
	u->next = *at;
	*at = u;
	forget_handshake(u);
	TAILQ_INSERT_TAIL(&t->open, u, link);
	t->n_open++;
}

static const char *
tunnels_objection(struct tunnel *u)
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
	if (floods_rests(t->setup.floods, node, loop_now_ms(t->setup.loop)))
		return "a tunnel of this node was cut a moment ago: it floods this hub";
	if (t->n_open >= t->setup.most)
		return "too many tunnels";
	newer = tunnels_newest(t, node);
	while (newer != NULL && newer->standby != u->standby)
		newer = of_node(newer->next, node);
	return newer != NULL && newer->came > u->came ? "the node has a newer tunnel" : NULL;
}

static void
on_shaken(struct tunnel *u)
{
	struct tunnels *t = u->of;
	const char *why = tunnels_objection(u);
	char peer[MESH_NODE_MAX + 16];
	struct tunnel_session_setup setup = {
		.session = {.loop = t->setup.loop,
			.role = t->setup.opened != NULL ? SESSION_SERVER : SESSION_CLIENT,
			.budget = &t->budget,
			.squeeze = t->setup.squeeze,
			.limits = &t->limits,
			.udp = t->setup.opened != NULL,
			.patient = true,
			.events = t->setup.opened != NULL ? &forward_events : &session_events,
			.arg = u},
		.tls = &u->tls,
		.liveness = u->proxied ? NULL : t->setup.liveness,
		.peer = peer,
		.workers = t->setup.sessions,
		.node = tls_stream_peer(u->tls),
	};

	if (why != NULL) {
		const char *name = tls_stream_peer(u->tls);

		turn_away(u, node_name_ok(name) ? name : "?", why);
		return;
	}
	u->node = xstrdup(tls_stream_peer(u->tls));
	/* as the node does: tunnel/node/tunnel_client.c */
	snprintf(peer, sizeof peer, "%s%s", u->node,
		sock_paths(tls_stream_fd(u->tls)) > 0 ? " multipath" : "");
	setup.session.slot = fair_share_slot(u->node, strlen(u->node), t->seed);
	t->resumed += tls_stream_resumed(u->tls);
	if (tunnel_session_new(&setup, &u->session) < 0) {
		turn_away(u, u->node, "no HTTP/2 session can be made");
		return;
	}
	u->since_ms = loop_now_ms(t->setup.loop);
	t->opened++;
	u->epoch = next_epoch(u);
	t->last = MAX(t->last, u->epoch);
	tunnels_insert(u);
	log_limited(LOG_LEVEL_INFO, TUNNELS_LOGGED, "hub", "%s open node=%s peer=%s epoch=%llu",
		t->setup.opened != NULL ? "way of a node to others"
			: u->standby    ? "standby tunnel"
					: "tunnel",
		u->node, u->address, (unsigned long long)u->epoch);
	retire_older(u);
	tell_changed(t, u->node);
	tell_news(t, u->node, TUNNEL_CAME);
}

static void
tunnels_fail(struct tunnel *u, const char *why)
{
	log_limited(LOG_LEVEL_WARN, 20, "hub", "tunnel refused node=? peer=%s reason=\"%s\"",
		u->address, why);
	u->of->failed++;
	forget_handshake(u);
	tunnel_free(u);
}

static void
on_handshake(void *arg, struct tls_stream *stream, const char *why)
{
	struct tunnel *u = arg;

	u->handshake = NULL;
	u->tls = stream;
	if (stream != NULL)
		on_shaken(u);
	else
		tunnels_fail(u, why);
}

/* fd: taken. from: whose handshake it is. */
static void
tunnels_shake(struct tunnel *u, int fd, const struct addr *from)
{
	const struct tunnels_setup *t = &u->of->setup;

	u->handshake = tls_handshake_new(&(struct tls_handshake_setup){
		.loop = t->loop,
		.workers = t->workers,
		.fd = fd,
		.ctx = t->tls,
		.alpn = t->opened != NULL ? TUNNEL_ALPN_FORWARD
			: u->standby      ? TUNNEL_ALPN_STANDBY
					  : TUNNEL_ALPN_REVERSE,
		.resumes = true,
		.from = from,
		.place = &u->place,
		.done = on_handshake,
		.arg = u,
	});
}

static void
tunnel_on_dropped(void *arg)
{
	turn_away(arg, "?", "its place was needed: too many handshakes are under way");
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
tunnels_adopt(struct tunnels *t, int fd, const char *from, bool standby)
{
	const struct addr peer = preauth_from(fd, from);
	struct tunnel *u = xcalloc(1, sizeof *u);

	u->place = (struct preauth_conn){.drop = tunnel_on_dropped, .arg = u};
	if (t->draining ||
		!preauth_enter(t->setup.preauth, &u->place, &peer, loop_now_ms(t->setup.loop))) {
		t->refused++;
		log_limited(LOG_LEVEL_WARN, 6, "hub", "a tunnel was turned away: %s",
			t->draining ? "this hub stops" : "too many handshakes are under way");
		free(u);
		close(fd);
		return;
	}
	u->of = t;
	u->standby = standby;
	u->came = t->last = MAX(t->last + 1, wall_ms());
	u->since_ms = loop_now_ms(t->setup.loop);
	u->proxied = from != NULL;
	if (from != NULL)
		snprintf(u->address, sizeof u->address, "%s", from);
	else
		tell_address(fd, u->address);
	TAILQ_INSERT_TAIL(&t->handshakes, u, link);
	tunnels_shake(u, fd, &peer);
}

void
tunnels_renew(struct tunnels *t, struct ssl_ctx_st *tls)
{
	if (!t->started)
		t->started_ms = loop_now_ms(t->setup.loop);
	t->started = true;
	t->setup.tls = tls;
}

/* --- certificates --------------------------------------------------------------------------- */

static bool
is_revoked(const struct tunnel *u)
{
	const struct tunnels_setup *setup = &u->of->setup;

	return setup->refuses != NULL && setup->refuses(setup->arg, u->node, u->serial);
}

/* Returns true if the node has shown since then, here or at another hub, that it holds a newer
 * certificate. Then its streams in the older tunnel go on: a stream may last for days, longer than
 * a certificate is valid. */
static bool
is_vouched_for(struct tunnel *u, int64_t now_s)
{
	const struct tunnels *t = u->of;
	const struct tunnel *at = tunnels_newest(t, u->node);
	uint64_t now_ms = loop_now_ms(t->setup.loop);
	bool vouched = t->setup.claimed != NULL &&
		t->setup.claimed(t->setup.others, u->node) > (u->standby ? u->came : u->epoch);

	for (; at != NULL && !vouched; at = of_node(at->next, u->node))
		vouched = at->came > u->came && now_s < at->ends_s && !is_revoked(at);
	if (vouched)
		u->vouched_ms = now_ms;
	return u->vouched_ms != 0 && now_ms - u->vouched_ms < VOUCHED_MS;
}

/* The tunnel keeps its streams and gets no new ones: so an expired stolen certificate gives its
 * thief no new streams. */
static void
tunnels_outlive(struct tunnel *u)
{
	if (u->older)
		return;
	tunnels_retire(u);
	tell_changed(u->of, u->node);
}

void
tunnels_check(struct tunnels *t)
{
	int64_t now_s = (int64_t)(wall_ms() / 1000);
	struct tunnel *u, *next;

	for (u = TAILQ_FIRST(&t->open); u != NULL; u = next) {
		next = TAILQ_NEXT(u, link);
		if (is_revoked(u))
			tunnels_cut(u, "the certificate of this node was revoked");
		else if (now_s >= u->ends_s && !is_vouched_for(u, now_s))
			tunnels_cut(u, "the certificate of this node has expired");
		else if (now_s >= u->ends_s)
			tunnels_outlive(u);
	}
}

static void
tunnels_tell_rests(const struct tunnels *t)
{
	struct tunnel *u;

	TAILQ_FOREACH(u, &t->open, link) {
		uint64_t rests = tunnel_session_stats(u->session)->rests;

		if (rests == u->rests)
			continue;
		floods_slowed(
			t->setup.floods, u->node, rests - u->rests, loop_now_ms(t->setup.loop));
		u->rests = rests;
		log_limited(LOG_LEVEL_WARN, TUNNELS_LOGGED, "hub",
			"a node asks for connections and gives them up, more than %u a second, and "
			"is read later: update its agent, or see what its pods dial node=%s "
			"peer=%s",
			t->limits.resets_per_s, u->node, u->address);
	}
}

static void
on_sweep(void *arg)
{
	const struct tunnels *t = arg;

	tunnels_check(arg);
	if (t->limits.resets_per_s != 0)
		tunnels_tell_rests(t);
	tunnels_forget_lost(arg, false);
}

unsigned
tunnels_revoked(struct tunnels *t, const char *node)
{
	struct tunnel *at = tunnels_newest(t, node), *next;
	unsigned n = 0;

	for (; at != NULL; at = next) {
		next = of_node(at->next, node);
		if (t->setup.refuses == NULL || !t->setup.refuses(t->setup.arg, node, at->serial))
			continue;
		tunnels_cut(at, "the certificate of this node was revoked");
		n++;
	}
	return n;
}

/* --- streams -------------------------------------------------------------------------------- */

int
tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	struct tunnel *u = tunnels_newest(t, node);
	int rc = -ENOTCONN;

	if (t->draining)
		return -ESHUTDOWN;
	for (; u != NULL; u = of_node(u->next, node)) {
		if (tunnel_session_is_silent(u->session))
			continue;
		rc = tunnel_session_open(u->session, request, events, arg, out);
		if (rc != -ESHUTDOWN)
			break;
	}
	t->missed += rc == -ENOTCONN;
	return rc;
}

bool
tunnels_have(const struct tunnels *t, const char *node)
{
	return tunnels_taking(t, node) != NULL;
}

void
tunnels_ask_anew(const struct tunnels *t, const char *node)
{
	const struct tunnel *u = tunnels_taking(t, node);

	if (u != NULL)
		tunnel_session_ask_anew(u->session);
}

bool
tunnels_silent(const struct tunnels *t, const char *node)
{
	const struct tunnel *u = tunnels_newest(t, node);

	for (; u != NULL; u = of_node(u->next, node))
		if (tunnel_session_is_silent(u->session) && !u->leaving && !u->older)
			return true;
	return false;
}

bool
tunnels_leaving(const struct tunnels *t, const char *node)
{
	const struct tunnel *u = tunnels_newest(t, node);

	while (u != NULL && !u->leaving)
		u = of_node(u->next, node);
	return u != NULL;
}

uint64_t
tunnels_epoch(const struct tunnels *t, const char *node)
{
	const struct tunnel *u = tunnels_taking(t, node);

	return u != NULL ? u->epoch : 0;
}

void
tunnels_each(
	const struct tunnels *t, void (*fn)(void *arg, const char *node, uint64_t epoch), void *arg)
{
	const struct tunnel *u;

	TAILQ_FOREACH(u, &t->open, link) {
		if (u == tunnels_taking(t, u->node))
			fn(arg, u->node, u->epoch);
	}
}

void
tunnels_yield(struct tunnels *t, const char *node, uint64_t epoch)
{
	struct tunnel *u = tunnels_newest(t, node);
	bool did = false;

	for (; u != NULL; u = of_node(u->next, node)) {
		if (u->older || u->standby || u->epoch >= epoch)
			continue;
		log_limited(LOG_LEVEL_INFO, TUNNELS_LOGGED, "hub",
			"another replica has a newer tunnel; this one finishes what it has node=%s "
			"peer=%s epoch=%llu newer=%llu",
			node, u->address, (unsigned long long)u->epoch, (unsigned long long)epoch);
		/* a living node opens another tunnel; a dead one does not notice */
		tunnel_session_send_away(u->session);
		tunnels_retire(u);
		did = true;
	}
	if (did)
		tell_changed(t, node);
}

unsigned
tunnels_streams(const struct tunnels *t, const char *node)
{
	const struct tunnel *u = tunnels_newest(t, node);
	unsigned n = 0;

	for (; u != NULL; u = of_node(u->next, node))
		n += tunnel_session_count(u->session);
	return n;
}

/* --- life cycle ----------------------------------------------------------------------------- */

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
	heartbeat = (unsigned)t->setup.heartbeat_ms;
	t->limits = (struct session_limits){.max_streams = STREAMS_MOST,
		.ping_ms = heartbeat,
		.dead_ms = 2 * heartbeat + 1000,
		.resets_per_s = setup->opened != NULL ? RESETS_PER_S : 0};
	t->started = setup->tls != NULL;
	t->started_ms = loop_now_ms(setup->loop);
	t->budget.limit = setup->memory_limit != 0
		? setup->memory_limit
		: session_budget_limit(TUNNELS_MEMORY, TUNNELS_MEMORY_MOST);
	if (setup->opened != NULL)
		t->budget.shares = fair_share_new(t->budget.limit);
	random_bytes(&t->seed, sizeof t->seed);
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
	/* set to NULL last: owners of ending streams may call tunnels_open */
	struct tunnels *t = *out;

	if (t == NULL)
		return;
	t->draining = true;
	t->done = NULL;
	t->setup.changed = NULL;
	end_handshakes(t);
	while (!TAILQ_EMPTY(&t->open))
		tunnels_drop(TAILQ_FIRST(&t->open), 0);
	timer_free(&t->sweep);
	timer_free(&t->drained);
	tunnels_forget_lost(t, true);
	fair_share_free(&t->budget.shares);
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
	TAILQ_FOREACH(u, &t->open, link) {
		/* so that the node opens another tunnel without waiting for the last stream */
		tunnel_session_send_away(u->session);
		tunnel_session_drain(u->session);
		tell_changed(t, u->node);
	}
	say_drained(t);
}
