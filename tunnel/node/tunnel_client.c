#include "tunnel/node/tunnel_client_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/core/sock_paths.h"
#include "base/core/state.h"
#include "base/http/retry_after.h"
#include "base/tls/pki_tls.h"

enum {
	STREAMS_MOST = 4096,
	KICK_AFTER_MS = 300, /* a kick does not interrupt a dial younger than this */
	KICK_JITTER_MS = 100,
};

static const char *const state_names[] = {
	[TUNNEL_CONN_DIALLING] = "dialling",
	[TUNNEL_CONN_OPEN] = "open",
	[TUNNEL_CONN_DOUBTED] = "doubted",
	[TUNNEL_CONN_DRAINING] = "draining",
	[TUNNEL_CONN_ENDED] = "ended",
};
static const uint32_t state_next[] = {
	[TUNNEL_CONN_DIALLING] = STATE_TO(TUNNEL_CONN_OPEN) | STATE_TO(TUNNEL_CONN_ENDED),
	[TUNNEL_CONN_OPEN] = STATE_TO(TUNNEL_CONN_DOUBTED) | STATE_TO(TUNNEL_CONN_DRAINING) |
		STATE_TO(TUNNEL_CONN_ENDED),
	[TUNNEL_CONN_DOUBTED] = STATE_TO(TUNNEL_CONN_OPEN) | STATE_TO(TUNNEL_CONN_DOUBTED) |
		STATE_TO(TUNNEL_CONN_DRAINING) | STATE_TO(TUNNEL_CONN_ENDED),
	[TUNNEL_CONN_DRAINING] = STATE_TO(TUNNEL_CONN_ENDED),
	[TUNNEL_CONN_ENDED] = 0,
};
static const struct state_machine states = {"tunnel-client", "tunnel", state_names, state_next};

static void tunnel_client_dial_now(struct tunnel_client *l);

static void
tunnel_conn_go(struct tunnel_conn *n, enum tunnel_conn_state to)
{
	n->state = state_go(&states, n->state, to);
}

/* --- the end -------------------------------------------------------------------------------- */

static void
tunnel_conn_free(struct tunnel_conn *n)
{
	if (n == NULL)
		return;
	tunnel_conn_go(n, TUNNEL_CONN_ENDED);
	tunnel_client_dial_free(&n->dial);
	session_free(&n->session);
	liveness_leave(&n->line);
	free(n);
}

static uint64_t
tunnel_client_jitter(uint64_t most)
{
	uint64_t random;

	random_bytes(&random, sizeof random);
	return random % (most + 1);
}

static void
tunnel_client_retry(struct tunnel_client *l, uint64_t most_ms)
{
	if (l->draining || l->held || !l->wanted)
		return;
	l->heeds = l->asked_ms > 0;
	timer_start(l->retry, l->asked_ms + tunnel_client_jitter(l->backoff_ms), 0);
	l->asked_ms = 0;
	l->backoff_ms = MIN(l->backoff_ms * 2, most_ms);
}

/* The current connection takes new streams again, if it did not. */
static void
tunnel_client_trust(struct tunnel_client *l)
{
	if (l->current->state != TUNNEL_CONN_DOUBTED)
		return;
	tunnel_conn_go(l->current, TUNNEL_CONN_OPEN);
	if (l->config.up != NULL)
		l->config.up(l->config.up_arg);
}

static void
tunnel_client_fail(struct tunnel_conn *n, uint64_t most_ms, const char *why)
{
	struct tunnel_client *l = n->client;

	l->failed++;
	snprintf(l->error, sizeof l->error, "%s", why);
	log_limited(LOG_LEVEL_WARN, 6, "tunnel",
		"cannot open the tunnel; trying again hub=%s address=%s error=\"%s\"", l->hub.host,
		n->address, why);
	l->dialling = NULL;
	tunnel_conn_free(n);
	tunnel_client_retry(l, most_ms);
	if (l->current != NULL && l->current->rerouted && !session_is_silent(l->current->session))
		tunnel_client_trust(l);
}

static bool
tunnel_client_idle(const struct tunnel_client *l)
{
	return l->current == NULL && TAILQ_EMPTY(&l->leaving);
}

static void
say_drained(struct tunnel_client *l)
{
	if (l->done != NULL && tunnel_client_idle(l))
		timer_start(l->drained, 0, 0);
}

static void
tunnel_client_lost(struct tunnel_client *l, const struct tunnel_conn *n, const char *why)
{
	uint64_t lived = loop_now_ms(l->config.loop) - n->since_ms;

	if (l->held) {
		log_limited(LOG_LEVEL_INFO, 12, "tunnel",
			"the tunnel has ended; another process has this node's address=%s",
			n->address);
		return;
	}
	l->lost++;
	if (session_is_settled(n->session))
		flapping_note(&l->ends, loop_now_ms(l->config.loop), why);
	snprintf(l->error, sizeof l->error, "%s", why);
	log_limited(LOG_LEVEL_WARN, 12, "tunnel",
		"lost the tunnel; trying again address=%s after_s=%llu why=\"%s\"%s", n->address,
		(unsigned long long)(lived / 1000), why,
		lived < TUNNEL_CLIENT_GOOD_MS ? " (the hub's log tells whether it was refused)"
					      : "");
	if (lived >= TUNNEL_CLIENT_GOOD_MS)
		l->backoff_ms = TUNNEL_CLIENT_FIRST_MS;
	tunnel_client_retry(l, TUNNEL_CLIENT_MOST_MS);
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct tunnel_conn *n = arg;
	struct tunnel_client *l = n->client;

	(void)rc;
	session_stats_add(&l->past, session_stats(n->session));
	if (n == l->current) {
		l->current = NULL;
		if (!l->draining)
			tunnel_client_lost(l, n, why);
	} else {
		TAILQ_REMOVE(&l->leaving, n, next);
		log_limited(LOG_LEVEL_INFO, 12, "tunnel",
			"the former tunnel has ended address=%s why=\"%s\"", n->address, why);
	}
	tunnel_conn_free(n);
	say_drained(l);
}

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	const struct tunnel_client_config *c = &((struct tunnel_conn *)arg)->client->config;

	return c->opened(c->arg, st, request, reason);
}

static void tunnel_client_leave(struct tunnel_client *l);

/* The hub takes no new streams on it: another connection will. */
static void
on_draining(void *arg)
{
	struct tunnel_conn *n = arg;
	struct tunnel_client *l = n->client;

	if (n != l->current)
		return;
	tunnel_client_leave(l);
	tunnel_client_retry(l, TUNNEL_CLIENT_MOST_MS);
}

/* tell: a callback of the configuration, or NULL. */
static void
tunnel_client_doubt(struct tunnel_client *l, const char *why, loop_fn *tell)
{
	struct tunnel_conn *n = l->current;

	log_limited(
		LOG_LEVEL_WARN, 12, "tunnel", "%s hub=%s address=%s", why, l->hub.host, n->address);
	l->doubted += n->state != TUNNEL_CONN_DOUBTED;
	n->doubt = why;
	tunnel_conn_go(n, TUNNEL_CONN_DOUBTED);
	if (tell != NULL)
		tell(l->config.up_arg);
}

static bool
tunnel_conn_leads_to(const struct tunnel_conn *n, const struct addr *hub)
{
	char address[ADDR_TEXT_MAX];

	return strcmp(addr_text(hub, address), n->address) == 0;
}

bool
tunnel_client_open_to(const struct tunnel_client *l, const struct addr *hub)
{
	return tunnel_client_session(l) != NULL && tunnel_conn_leads_to(l->current, hub);
}

bool
tunnel_client_is_for(const struct tunnel_client *l, const struct addr *hub)
{
	char to[ADDR_TEXT_MAX], address[ADDR_TEXT_MAX];

	if (tunnel_client_session(l) != NULL)
		return tunnel_conn_leads_to(l->current, hub);
	return strcmp(addr_text(hub, address), addr_text(&l->hub.addr, to)) == 0;
}

static void
on_silent(void *arg, bool is_silent)
{
	struct tunnel_conn *n = arg;
	struct tunnel_client *l = n->client;

	if (n != l->current)
		return;
	if (is_silent) {
		tunnel_client_doubt(l,
			"the hub answers neither a stream nor a ping; looking for another way",
			l->config.doubted);
		if (l->current != NULL && !tunnel_conn_leads_to(l->current, &l->hub.addr))
			tunnel_client_dial_now(l);
		return;
	}
	log_limited(LOG_LEVEL_INFO, 12, "tunnel", "the hub answers again hub=%s address=%s",
		l->hub.host, n->address);
	tunnel_client_trust(l);
}

static void
on_asked(void *arg)
{
	const struct tunnel_conn *n = arg;

	if (n->client->config.asked != NULL)
		n->client->config.asked(n->client->config.up_arg);
}

static const struct session_events session_events = {.opened = on_opened,
	.draining = on_draining,
	.asked = on_asked,
	.silent = on_silent,
	.ended = on_ended};
static const struct session_events forward_events = {
	.draining = on_draining, .silent = on_silent, .ended = on_ended};

/* --- connecting ----------------------------------------------------------------------------- */

static void
tunnel_client_leave(struct tunnel_client *l)
{
	struct tunnel_conn *n = take_ptr(&l->current);

	if (n == NULL)
		return;
	tunnel_conn_go(n, TUNNEL_CONN_DRAINING);
	TAILQ_INSERT_TAIL(&l->leaving, n, next);
	session_drain(n->session);
}

static void
on_shaken(struct tunnel_conn *n, struct tls_stream *tls)
{
	struct tunnel_client *l = n->client;
	/* a proxy would answer keep-alive probes itself */
	const bool straight = l->config.carriers == NULL && l->hub.proxy == NULL;
	char peer[ADDR_TEXT_MAX + 16];
	struct session_setup setup = {
		.loop = l->config.loop,
		.role = l->config.forward ? SESSION_CLIENT : SESSION_SERVER,
		.budget = &l->budget,
		.squeeze = true, /* if the hub offers it */
		.limits = &l->limits,
		.udp = !l->config.forward,
		.says_beat = true,
		.patient = true,
		.follows = l->config.forward,
		.events = l->config.forward ? &forward_events : &session_events,
		.arg = n,
	};

	/* On several paths it lives where connections on one alone do not. */
	snprintf(peer, sizeof peer, "%s%s", n->address,
		sock_paths(tls_stream_fd(tls)) > 0 ? " multipath" : "");
	if (straight && l->config.liveness != NULL) {
		setup.line = &n->line;
		liveness_join(l->config.liveness, peer, setup.line, loop_now_ms(l->config.loop));
	}
	setup.wire = transport_tls(&tls);
	if (session_new(&setup, &n->session) < 0) {
		tunnel_client_fail(n, TUNNEL_CLIENT_MOST_MS, "no HTTP/2 session can be made");
		return;
	}
	tunnel_conn_go(n, TUNNEL_CONN_OPEN);
	l->dialling = NULL;
	l->opened++;
	l->renewed += l->current != NULL;
	l->error[0] = '\0';
	n->since_ms = loop_now_ms(l->config.loop);
	log_limited(LOG_LEVEL_INFO, 12, "tunnel", "%s hub=%s address=%s",
		l->current == NULL ? l->config.standby ? "standby tunnel open" : "tunnel open"
			: l->current->certificate == n->certificate
			? "another tunnel is open; the former one finishes"
			: "tunnel open with the new certificate; the former one finishes",
		l->hub.host, n->address);
	tunnel_client_leave(l);
	l->current = n;
	if (!l->config.forward && l->config.to_be_asked != NULL &&
		l->config.to_be_asked(l->config.arg))
		tunnel_client_ask_anew(l);
	if (l->config.up != NULL)
		l->config.up(l->config.up_arg);
}

static void
on_dialled(void *arg, struct tls_stream *tls, bool unanswered, const char *why)
{
	struct tunnel_conn *n = arg;
	struct tunnel_client *l = n->client;
	char busy[80];

	if (tls == NULL) {
		if (tunnel_client_dial_busy(n->dial)) {
			l->told_to_wait++;
			l->asked_ms =
				RETRY_AFTER_BUSY_MS + tunnel_client_jitter(RETRY_AFTER_BUSY_MS);
			snprintf(busy, sizeof busy,
				"the hub is busy; it asks to come again in %llu s or later",
				(unsigned long long)l->asked_ms / 1000);
			why = busy;
		}
		tunnel_client_fail(
			n, unanswered ? TUNNEL_CLIENT_UNANSWERED_MS : TUNNEL_CLIENT_MOST_MS, why);
		return;
	}
	tunnel_client_dial_free(&n->dial);
	on_shaken(n, tls);
}

/* A busy hub is not asked again with each pod that comes or goes here. */
static bool
tunnel_client_heeds(const struct tunnel_client *l)
{
	return l->heeds && timer_active(l->retry);
}

static void
tunnel_client_dial_now(struct tunnel_client *l)
{
	struct tunnel_conn *n;

	if (l->hub.tls == NULL || l->dialling != NULL || l->draining || l->held || !l->wanted ||
		tunnel_client_heeds(l))
		return;
	timer_cancel(l->retry);
	n = xcalloc(1, sizeof *n);
	n->client = l;
	n->certificate = l->hub.certificate;
	n->multipath = l->multipath && l->config.carriers == NULL && l->hub.proxy == NULL;
	n->since_ms = loop_now_ms(l->config.loop);
	addr_text(&l->hub.addr, n->address);
	l->dialling = n;
	tunnel_client_dial_start(&n->dial,
		&(struct tunnel_client_dial_setup){
			.loop = l->config.loop,
			.hub = &l->hub,
			.carriers = l->config.carriers,
			.multipath = n->multipath,
			.mark = l->config.mark,
			.alpn = l->config.forward   ? TUNNEL_ALPN_FORWARD
				: l->config.standby ? TUNNEL_ALPN_STANDBY
						    : TUNNEL_ALPN_REVERSE,
			.done = on_dialled,
			.arg = n,
		});
}

static bool
tunnel_client_wants_another(const struct tunnel_client *l)
{
	return l->current->certificate != l->hub.certificate ||
		(l->multipath && !l->current->multipath && l->config.carriers == NULL &&
			l->hub.proxy == NULL) ||
		l->current->state == TUNNEL_CONN_DOUBTED || l->current->rerouted ||
		(l->config.standby && !tunnel_conn_leads_to(l->current, &l->hub.addr));
}

static void
on_retry(void *arg)
{
	struct tunnel_client *l = arg;

	if (l->current == NULL || tunnel_client_wants_another(l))
		tunnel_client_dial_now(l);
}

/* --- the owner ------------------------------------------------------------------------------ */

static void
on_drained(void *arg)
{
	struct tunnel_client *l = arg;
	loop_fn *done = l->done;

	l->done = NULL;
	if (done != NULL)
		done(l->done_arg);
}

struct tunnel_client *
tunnel_client_new(const struct tunnel_client_config *config)
{
	struct tunnel_client *l = xcalloc(1, sizeof *l);
	unsigned heartbeat = (unsigned)config->heartbeat_ms;

	l->config = *config;
	l->wanted = !config->forward;
	/* The second tunnel is only kept in the NATs: whoever opens a stream there finds out. */
	if (config->standby && config->liveness != NULL && config->carriers == NULL)
		heartbeat = MAX(heartbeat, (unsigned)LIVENESS_NAT_MS / 2);
	l->limits = (struct session_limits){
		.max_streams = STREAMS_MOST, .ping_ms = heartbeat, .dead_ms = 2 * heartbeat + 1000};
	l->budget.limit = config->memory_limit != 0
		? config->memory_limit
		: session_budget_limit(TUNNEL_CLIENT_MEMORY, TUNNEL_CLIENT_MEMORY_MOST);
	l->backoff_ms = TUNNEL_CLIENT_FIRST_MS;
	TAILQ_INIT(&l->leaving);
	l->retry = timer_new(config->loop, on_retry, l);
	l->drained = timer_new(config->loop, on_drained, l);
	return l;
}

static void
forget_hub(struct tunnel_client *l)
{
	free((void *)(uintptr_t)l->hub.host);
	free((void *)(uintptr_t)l->hub.target);
	pki_ctx_free(&l->hub.tls);
}

void
tunnel_client_free(struct tunnel_client **out)
{
	struct tunnel_client *l = take_ptr(out);
	struct tunnel_conn *n;

	if (l == NULL)
		return;
	l->draining = true;
	tunnel_conn_free(l->dialling);
	tunnel_conn_free(l->current);
	while ((n = TAILQ_FIRST(&l->leaving)) != NULL) {
		TAILQ_REMOVE(&l->leaving, n, next);
		tunnel_conn_free(n);
	}
	timer_free(&l->retry);
	timer_free(&l->drained);
	forget_hub(l);
	free(l);
}

void
tunnel_client_use(struct tunnel_client *l, const struct tunnel_client_hub *hub)
{
	bool another = hub->certificate != l->hub.certificate;
	char address[ADDR_TEXT_MAX];

	addr_text(&hub->addr, address);
	if (!tunnel_client_is_for(l, &hub->addr))
		l->heeds = false;
	if (l->dialling != NULL && strcmp(l->dialling->address, address) != 0)
		/* a dial to a dead address would delay the new one */
		tunnel_conn_free(take_ptr(&l->dialling));
	pki_ctx_ref(hub->tls);
	forget_hub(l);
	l->hub = *hub;
	l->hub.host = xstrdup(hub->host);
	l->hub.target = hub->target != NULL ? xstrdup(hub->target) : NULL;
	if (another)
		l->backoff_ms = TUNNEL_CLIENT_FIRST_MS;
	if (l->current == NULL)
		tunnel_client_kick(l);
	else if (tunnel_client_wants_another(l))
		tunnel_client_dial_now(l);
}

void
tunnel_client_kick(struct tunnel_client *l)
{
	struct tunnel_conn *n = l->dialling;

	if (l->current != NULL || l->draining || l->held || !l->wanted || tunnel_client_heeds(l))
		return;
	if (n != NULL) {
		if (tunnel_client_dial_shakes(n->dial) ||
			loop_now_ms(l->config.loop) - n->since_ms < KICK_AFTER_MS)
			return;
		tunnel_conn_free(take_ptr(&l->dialling));
	}
	l->backoff_ms = MIN(l->backoff_ms, (uint64_t)TUNNEL_CLIENT_UNANSWERED_MS);
	timer_start(l->retry, tunnel_client_jitter(KICK_JITTER_MS), 0);
}

void
tunnel_client_network(struct tunnel_client *l)
{
	struct tunnel_conn *n = l->current;
	const bool was = n != NULL && n->rerouted;

	if (n == NULL) {
		tunnel_client_kick(l);
		return;
	}
	n->rerouted = session_is_rerouted(n->session);
	if (n->rerouted && !was)
		tunnel_client_doubt(l,
			"this machine's way to the hub is another now; dialling anew",
			l->config.rerouted);
	if (n->rerouted && n == l->current) {
		session_probe(n->session);
		tunnel_client_dial_now(l);
	} else if (was && n == l->current && !session_is_silent(n->session)) {
		tunnel_client_trust(l);
	}
}

void
tunnel_client_multipath(struct tunnel_client *l, bool several)
{
	l->multipath = several;
	if (l->current != NULL && tunnel_client_wants_another(l))
		tunnel_client_dial_now(l);
}

bool
tunnel_client_paths_lost(struct tunnel_client *l, struct in6_addr *local)
{
	struct tunnel_conn *n;

	if (l->current != NULL && session_paths_lost(l->current->session, local))
		return true;
	TAILQ_FOREACH(n, &l->leaving, next)
		if (session_paths_lost(n->session, local))
			return true;
	return false;
}

unsigned
tunnel_client_paths(const struct tunnel_client *l)
{
	return l->current != NULL ? session_paths(l->current->session) : 0;
}

bool
tunnel_client_paths_use(const struct tunnel_client *l, const struct in6_addr *local)
{
	return l->current != NULL && session_paths_use(l->current->session, local);
}

void
tunnel_client_probe(struct tunnel_client *l)
{
	if (l->current != NULL)
		session_probe(l->current->session);
}

void
tunnel_client_want(struct tunnel_client *l, bool wanted)
{
	if (wanted == l->wanted || l->draining)
		return;
	l->wanted = wanted;
	if (wanted) {
		l->backoff_ms = TUNNEL_CLIENT_FIRST_MS;
		tunnel_client_dial_now(l);
		return;
	}
	timer_cancel(l->retry);
	tunnel_conn_free(take_ptr(&l->dialling));
	tunnel_client_leave(l);
	l->error[0] = '\0';
}

void
tunnel_client_ask_anew(struct tunnel_client *l)
{
	if (l->current != NULL)
		session_ask_anew(l->current->session);
}

struct session *
tunnel_client_session(const struct tunnel_client *l)
{
	return l->current != NULL && l->current->state == TUNNEL_CONN_OPEN ? l->current->session
									   : NULL;
}

void
tunnel_client_hold(struct tunnel_client *l, bool held)
{
	l->held = held;
	if (!held) {
		tunnel_client_kick(l);
		return;
	}
	timer_cancel(l->retry);
	tunnel_conn_free(take_ptr(&l->dialling));
}

void
tunnel_client_drain(struct tunnel_client *l, loop_fn *done, void *arg)
{
	l->draining = true;
	l->done = done;
	l->done_arg = arg;
	timer_cancel(l->retry);
	tunnel_conn_free(take_ptr(&l->dialling));
	tunnel_client_leave(l);
	say_drained(l);
}

uint64_t
tunnel_client_opened(const struct tunnel_client *l)
{
	return l->opened;
}

bool
tunnel_client_open(const struct tunnel_client *l)
{
	return l->current != NULL;
}
