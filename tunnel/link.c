#include "tunnel/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/log.h"
#include "base/pki_tls.h"
#include "model/json.h"

enum {
	STREAMS_MOST = 4096,
	KICK_AFTER_MS = 300, /* a dial younger than this is left alone by a kick */
	KICK_JITTER_MS = 100,
};

/* One connection. Gets a session once it is open. */
struct line {
	TAILQ_ENTRY(line) next;
	struct link *of;
	struct watch *watch; /* while it connects */
	struct timer *deadline; /* of that */
	struct proxy_dial *proxied; /* the same, through a proxy */
	struct carriers_dial *carried; /* the same, inside of a websocket */
	struct tls_stream *tls; /* while it shakes hands */
	struct session *session;
	int fd; /* while it connects, else -1 */
	uint64_t certificate, since_ms;
	char address[ADDR_TEXT_MAX];
};

TAILQ_HEAD(lines, line);

struct link {
	struct link_config config;
	struct session_budget budget;
	struct session_limits limits;
	struct timer *retry, *drained;
	struct link_hub hub; /* tls NULL: not known yet */
	struct line *dialling; /* becomes `now` */
	struct line *now; /* takes new streams */
	struct lines leaving; /* finish what they have */
	uint64_t backoff_ms;
	bool draining;
	bool held; /* nothing is dialled */
	bool wanted;
	loop_fn *done;
	void *done_arg;
	char error[256]; /* why the last attempt failed, "" none */
	struct session_stats past;
	uint64_t opened, failed, lost, renewed, dead;
};

static void dial(struct link *l);

/* --- ends -------------------------------------------------------------------------------------------- */

static void
line_free(struct line *n)
{
	if (n == NULL)
		return;
	if (n->watch != NULL)
		watch_stop(&n->watch);
	timer_free(&n->deadline);
	proxy_cancel(&n->proxied);
	carriers_cancel(&n->carried);
	if (n->fd >= 0)
		close(n->fd);
	tls_stream_free(&n->tls);
	session_free(&n->session);
	free(n);
}

static uint64_t
jitter(uint64_t most)
{
	uint64_t random;

	random_bytes(&random, sizeof random);
	return random % (most + 1);
}

static void
retry(struct link *l, uint64_t most_ms)
{
	if (l->draining || l->held || !l->wanted)
		return;
	timer_start(l->retry, jitter(l->backoff_ms), 0);
	l->backoff_ms = MIN(l->backoff_ms * 2, most_ms);
}

static void
fail(struct line *n, uint64_t most_ms, const char *why)
{
	struct link *l = n->of;

	l->failed++;
	snprintf(l->error, sizeof l->error, "%s", why);
	log_limited(LOG_LEVEL_WARN, 6, "tunnel",
		"cannot open the tunnel; trying again hub=%s address=%s error=\"%s\"", l->hub.host,
		n->address, why);
	l->dialling = NULL;
	line_free(n);
	retry(l, most_ms);
}

static bool
idle(const struct link *l)
{
	return l->now == NULL && TAILQ_EMPTY(&l->leaving);
}

static void
say_drained(struct link *l)
{
	if (l->done != NULL && idle(l))
		timer_start(l->drained, 0, 0);
}

static void
lost(struct link *l, const struct line *n, int rc, const char *why)
{
	uint64_t lived = loop_now_ms(l->config.loop) - n->since_ms;

	if (l->held) {
		log_info("tunnel",
			"the tunnel has ended; another process has this node's address=%s",
			n->address);
		return;
	}
	l->lost++;
	l->dead += rc == -ETIMEDOUT;
	snprintf(l->error, sizeof l->error, "%s", why);
	log_limited(LOG_LEVEL_WARN, 12, "tunnel",
		"lost the tunnel; trying again address=%s after_s=%llu why=\"%s\"%s", n->address,
		(unsigned long long)(lived / 1000), why,
		lived < LINK_GOOD_MS ? " (the hub's log tells whether it was refused)" : "");
	if (lived >= LINK_GOOD_MS)
		l->backoff_ms = LINK_FIRST_MS;
	retry(l, LINK_MOST_MS);
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct line *n = arg;
	struct link *l = n->of;

	session_stats_add(&l->past, session_stats(n->session));
	if (n == l->now) {
		l->now = NULL;
		if (!l->draining)
			lost(l, n, rc, why);
	} else {
		TAILQ_REMOVE(&l->leaving, n, next);
		log_info("tunnel", "the former tunnel has ended address=%s why=\"%s\"", n->address,
			why);
	}
	line_free(n);
	say_drained(l);
}

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	const struct link_config *c = &((struct line *)arg)->of->config;

	return c->opened(c->arg, st, request, reason);
}

static void leave(struct link *l);

/* The hub takes no new streams on it: another connection does. */
static void
on_draining(void *arg)
{
	struct line *n = arg;
	struct link *l = n->of;

	if (n != l->now)
		return;
	leave(l);
	retry(l, LINK_MOST_MS);
}

static const struct session_events session_events = {
	.opened = on_opened, .draining = on_draining, .ended = on_ended};
static const struct session_events forward_events = {.draining = on_draining, .ended = on_ended};

/* --- the way up -------------------------------------------------------------------------------------- */

static void
leave(struct link *l)
{
	struct line *n = take_ptr(&l->now);

	if (n == NULL)
		return;
	TAILQ_INSERT_TAIL(&l->leaving, n, next);
	session_drain(n->session);
}

static void
on_shaken(struct line *n)
{
	struct link *l = n->of;
	struct session_setup setup = {
		.loop = l->config.loop,
		.role = l->config.forward ? SESSION_CLIENT : SESSION_SERVER,
		.wire = wire_tls(&n->tls),
		.budget = &l->budget,
		.squeeze = true, /* when the hub asks for it */
		.limits = &l->limits,
		.udp = !l->config.forward,
		.says_beat = !l->config.forward,
		.events = l->config.forward ? &forward_events : &session_events,
		.arg = n,
	};

	if (session_new(&setup, &n->session) < 0) {
		fail(n, LINK_MOST_MS, "no HTTP/2 session can be made");
		return;
	}
	l->dialling = NULL;
	l->opened++;
	l->renewed += l->now != NULL;
	l->error[0] = '\0';
	n->since_ms = loop_now_ms(l->config.loop);
	log_info("tunnel", "%s hub=%s address=%s",
		l->now != NULL ? "tunnel open with the new certificate; the former one finishes"
			       : "tunnel open",
		l->hub.host, n->address);
	leave(l);
	l->now = n;
	if (!l->config.forward && l->config.to_be_asked != NULL &&
		l->config.to_be_asked(l->config.arg))
		link_ask_anew(l);
	if (l->config.up != NULL)
		l->config.up(l->config.up_arg);
}

static void
on_tls(void *arg, enum tls_event event)
{
	struct line *n = arg;

	if (event == TLS_OPEN)
		on_shaken(n);
	else
		fail(n, LINK_MOST_MS, tls_stream_why(n->tls));
}

static void
shake_hands(struct line *n, int fd)
{
	struct link *l = n->of;
	struct tls_setup setup = {
		.loop = l->config.loop,
		.fd = fd,
		.ctx = l->hub.tls,
		.host = l->hub.host,
		.alpn = l->config.forward ? TUNNEL_ALPN_FORWARD : TUNNEL_ALPN_REVERSE,
		.on = on_tls,
		.arg = n,
	};
	struct err err = {0};

	if (tls_stream_new(&setup, &n->tls, &err) < 0)
		fail(n, LINK_MOST_MS, err.text);
}

static void
on_connected(void *arg, int fd, unsigned events)
{
	struct line *n = arg;
	int error = sock_error(fd);

	(void)events;
	if (error != 0) {
		fail(n, LINK_UNANSWERED_MS, strerror(error));
		return;
	}
	watch_stop(&n->watch);
	timer_cancel(n->deadline);
	shake_hands(n, take_fd(&n->fd));
}

static void
on_proxied(void *arg, int fd, const char *why)
{
	struct line *n = arg;

	n->proxied = NULL;
	n->carried = NULL;
	if (fd < 0)
		fail(n, LINK_MOST_MS, why);
	else
		shake_hands(n, fd);
}

static void
on_late(void *arg)
{
	fail(arg, LINK_UNANSWERED_MS, "the hub does not answer");
}

static void
dial_proxy(struct link *l, struct line *n)
{
	struct proxy_setup setup = {
		.proxy = l->hub.proxy,
		.addr = l->hub.addr,
		.target = l->hub.target,
		.mark = l->config.mark,
		.timeout_ms = LINK_PROXY_MS,
		.done = on_proxied,
		.arg = n,
	};
	struct err err = {0};

	if (proxy_dial(&n->proxied, l->config.loop, &setup, &err) < 0)
		fail(n, LINK_MOST_MS, err.text);
}

static void
dial_carried(struct link *l, struct line *n)
{
	const struct carriers_setup setup = {
		.addr = l->hub.addr,
		.proxy = l->hub.proxy,
		.host = l->hub.host,
		.target = l->hub.target,
		.tls = l->hub.tls,
		.done = on_proxied,
		.arg = n,
	};
	struct err err = {0};

	if (carriers_dial(l->config.carriers, &setup, &n->carried, &err) < 0)
		fail(n, LINK_MOST_MS, err.text);
}

static void
dial(struct link *l)
{
	struct line *n;
	int rc;

	if (l->hub.tls == NULL || l->dialling != NULL || l->draining || l->held || !l->wanted)
		return;
	timer_cancel(l->retry);
	n = xcalloc(1, sizeof *n);
	n->of = l;
	n->fd = -1;
	n->certificate = l->hub.certificate;
	n->since_ms = loop_now_ms(l->config.loop);
	n->deadline = timer_new(l->config.loop, on_late, n);
	addr_text(&l->hub.addr, n->address);
	l->dialling = n;
	if (l->config.carriers != NULL) {
		dial_carried(l, n);
		return;
	}
	if (l->hub.proxy != NULL) {
		dial_proxy(l, n);
		return;
	}
	rc = sock_connect(&l->hub.addr, l->config.mark, &n->fd);
	if (rc < 0) {
		fail(n, LINK_UNANSWERED_MS, strerror(-rc));
		return;
	}
	timer_start(n->deadline, LINK_CONNECT_MS, 0);
	n->watch = watch_start(l->config.loop, n->fd, WATCH_WRITE, on_connected, n);
}

static void
on_retry(void *arg)
{
	struct link *l = arg;

	if (l->now == NULL || l->now->certificate != l->hub.certificate)
		dial(l);
}

/* --- the owner ---------------------------------------------------------------------------------------- */

static void
on_drained(void *arg)
{
	struct link *l = arg;
	loop_fn *done = l->done;

	l->done = NULL;
	if (done != NULL)
		done(l->done_arg);
}

struct link *
link_new(const struct link_config *config)
{
	struct link *l = xcalloc(1, sizeof *l);
	unsigned heartbeat = (unsigned)config->heartbeat_ms;

	l->config = *config;
	l->wanted = !config->forward;
	l->limits = (struct session_limits){STREAMS_MOST, heartbeat, 2 * heartbeat + 1000};
	l->budget.limit = config->memory_limit != 0 ? config->memory_limit : LINK_MEMORY;
	l->backoff_ms = LINK_FIRST_MS;
	TAILQ_INIT(&l->leaving);
	l->retry = timer_new(config->loop, on_retry, l);
	l->drained = timer_new(config->loop, on_drained, l);
	return l;
}

static void
forget_hub(struct link *l)
{
	free((void *)(uintptr_t)l->hub.host);
	free((void *)(uintptr_t)l->hub.target);
	pki_ctx_free(&l->hub.tls);
}

void
link_free(struct link **out)
{
	struct link *l = take_ptr(out);
	struct line *n;

	if (l == NULL)
		return;
	l->draining = true;
	line_free(l->dialling);
	line_free(l->now);
	while ((n = TAILQ_FIRST(&l->leaving)) != NULL) {
		TAILQ_REMOVE(&l->leaving, n, next);
		line_free(n);
	}
	timer_free(&l->retry);
	timer_free(&l->drained);
	forget_hub(l);
	free(l);
}

void
link_use(struct link *l, const struct link_hub *hub)
{
	bool another = hub->certificate != l->hub.certificate;

	pki_ctx_ref(hub->tls);
	forget_hub(l);
	l->hub = *hub;
	l->hub.host = xstrdup(hub->host);
	l->hub.target = hub->target != NULL ? xstrdup(hub->target) : NULL;
	if (another)
		l->backoff_ms = LINK_FIRST_MS;
	if (l->now == NULL)
		link_kick(l);
	else if (l->now->certificate != hub->certificate)
		dial(l);
}

void
link_kick(struct link *l)
{
	struct line *n = l->dialling;

	if (l->now != NULL || l->draining || l->held || !l->wanted)
		return;
	if (n != NULL) {
		if (n->tls != NULL || loop_now_ms(l->config.loop) - n->since_ms < KICK_AFTER_MS)
			return;
		line_free(take_ptr(&l->dialling));
	}
	l->backoff_ms = MIN(l->backoff_ms, LINK_UNANSWERED_MS);
	timer_start(l->retry, jitter(KICK_JITTER_MS), 0);
}

void
link_want(struct link *l, bool wanted)
{
	if (wanted == l->wanted || l->draining)
		return;
	l->wanted = wanted;
	if (wanted) {
		l->backoff_ms = LINK_FIRST_MS;
		dial(l);
		return;
	}
	timer_cancel(l->retry);
	line_free(take_ptr(&l->dialling));
	leave(l);
	l->error[0] = '\0';
}

void
link_ask_anew(struct link *l)
{
	if (l->now != NULL)
		session_ask_anew(l->now->session);
}

struct session *
link_session(const struct link *l)
{
	return l->now != NULL ? l->now->session : NULL;
}

void
link_hold(struct link *l, bool held)
{
	l->held = held;
	if (!held) {
		link_kick(l);
		return;
	}
	timer_cancel(l->retry);
	line_free(take_ptr(&l->dialling));
}

void
link_drain(struct link *l, loop_fn *done, void *arg)
{
	l->draining = true;
	l->done = done;
	l->done_arg = arg;
	timer_cancel(l->retry);
	line_free(take_ptr(&l->dialling));
	leave(l);
	say_drained(l);
}

bool
link_open(const struct link *l)
{
	return l->now != NULL;
}

/* --- telling ------------------------------------------------------------------------------------------ */

static struct session_stats
sum(const struct link *l)
{
	struct session_stats s = l->past;
	const struct line *n;

	s.streams = 0;
	s.rtt_ms = l->now != NULL ? session_stats(l->now->session)->rtt_ms : 0;
	if (l->now != NULL)
		session_stats_add(&s, session_stats(l->now->session));
	TAILQ_FOREACH(n, &l->leaving, next)
	session_stats_add(&s, session_stats(n->session));
	return s;
}

unsigned
link_streams(const struct link *l)
{
	return sum(l).streams;
}

void
link_metrics(const struct link *l, struct metrics *m)
{
	static const char bytes[] = "edgeway_tunnel_bytes_total", help[] = "Payload carried.";
	struct session_stats s = sum(l);

	metric_gauge(m, "edgeway_tunnel_open", "1 while the hub can open streams.", NULL,
		l->now != NULL);
	metric_counter(m, "edgeway_tunnel_connections_total",
		"Attempts to open the tunnel, by what became of them.", "result=\"open\"",
		l->opened);
	metric_counter(m, "edgeway_tunnel_connections_total",
		"Attempts to open the tunnel, by what became of them.", "result=\"failed\"",
		l->failed);
	metric_counter(m, "edgeway_tunnel_lost_total", "Tunnels that ended against our will.", NULL,
		l->lost);
	metric_counter(
		m, "edgeway_tunnel_dead_total", "Tunnels whose hub fell silent.", NULL, l->dead);
	metric_counter(m, "edgeway_tunnel_renewed_total",
		"Tunnels that took another's place with a new certificate.", NULL, l->renewed);
	metric_gauge(
		m, "edgeway_tunnel_streams", "Streams that are open.", NULL, (double)s.streams);
	metric_counter(m, bytes, help, "direction=\"from_hub\"", s.bytes_in);
	metric_counter(m, bytes, help, "direction=\"to_hub\"", s.bytes_out);
	metric_counter(m, "edgeway_tunnel_resets_total", "Streams that were reset.", "by=\"node\"",
		s.resets_sent);
	metric_counter(m, "edgeway_tunnel_resets_total", "Streams that were reset.", "by=\"hub\"",
		s.resets_received);
	metric_counter(m, "edgeway_tunnel_stalls_total",
		"Times that a stream took no more for a while.", NULL, s.stalls);
	metric_counter(m, "edgeway_tunnel_saved_bytes_total",
		"Bytes of clear text that the hub's tunnel.compress kept off the wire.", NULL,
		s.saved);
	metric_gauge(m, "edgeway_tunnel_rtt_seconds", "Round trip to the hub, by the last ping.",
		NULL, s.rtt_ms / 1000.0);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		"what=\"held\"", (double)l->budget.held);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		"what=\"granted\"", (double)l->budget.granted);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		"what=\"queued\"", (double)l->budget.queued);
}

static const char *
state_name(const struct link *l)
{
	if (l->draining)
		return "leaving";
	if (l->now != NULL)
		return "open";
	if (l->dialling != NULL)
		return "dialling";
	return l->hub.tls != NULL ? "waiting" : "no hub yet";
}

void
link_streams_state(const struct link *l, const char *node, const char **comma, struct buf *out)
{
	const struct line *n;

	if (l->now != NULL)
		session_streams(l->now->session, node, comma, out);
	TAILQ_FOREACH(n, &l->leaving, next)
	session_streams(n->session, node, comma, out);
}

void
link_state(const struct link *l, struct buf *out)
{
	struct session_stats s = sum(l);

	buf_printf(out, "\"state\":\"%s\",\"carrier\":\"%s\",\"hub\":", state_name(l),
		l->config.carriers != NULL ? "websocket" : "tls");
	json_add_text(out, l->now != NULL ? l->now->address : "");
	if (l->now != NULL)
		buf_printf(out, ",\"since_s\":%llu",
			(unsigned long long)((loop_now_ms(l->config.loop) - l->now->since_ms) /
				1000));
	buf_printf(out,
		",\"streams\":%u,\"rtt_ms\":%u,\"bytes_in\":%llu,\"bytes_out\":%llu,"
		"\"connections\":%llu,\"failures\":%llu,\"error\":",
		s.streams, s.rtt_ms, (unsigned long long)s.bytes_in,
		(unsigned long long)s.bytes_out, (unsigned long long)l->opened,
		(unsigned long long)l->failed);
	json_add_text(out, l->error);
}
