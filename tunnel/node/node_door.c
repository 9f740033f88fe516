#include "tunnel/node/node_door.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/core/figures.h"
#include "base/core/log.h"
#include "base/core/preauth.h"
#include "base/tls/pki.h"
#include "base/tls/tls_stream.h"
#include "model/json.h"
#include "tunnel/node/floods.h"

enum {
	BATCH = 16,
	AGAIN_MS = 2000,
	STREAMS_MOST = 512, /* per session */
	RESETS_PER_S = 1000, /* as a hub's: hub/replicas/tunnels.c */
	FLOODS_LOGGED = 6, /* lines a minute, of each kind */
};

/* One connection, from its accept to its end. */
struct guest {
	TAILQ_ENTRY(guest) link; /* the oldest first */
	struct node_door *of;
	struct preauth_conn place;
	struct tls_stream *tls; /* until it has authenticated */
	struct session *session; /* since then */
	uint64_t since_ms;
	int64_t ends_s; /* of its certificate */
	struct addr from;
	bool nat; /* it was made across NAT, with `node` alone */
	char node[254], serial[PKI_SERIAL_TEXT];
};

TAILQ_HEAD(guests, guest);

struct node_door {
	struct node_door_config config;
	struct session_budget budget;
	struct session_limits limits;
	struct ssl_ctx_st *tls;
	struct preauth *preauth;
	struct floods *floods;
	uint64_t seed; /* of nodes' slots of the budget's shares */
	struct watch *watch;
	struct timer *again; /* to listen, or to accept again after a shortage */
	struct timer *drained;
	int fd; /* -1: it does not listen */
	struct guests guests;
	unsigned n_guests; /* that have authenticated */
	bool draining;
	loop_fn *done;
	void *done_arg;
	char error[512];
	struct session_stats past;
	uint64_t opened, refused;
};

/* --- the end -------------------------------------------------------------------------------- */

static void
node_door_say_drained(struct node_door *d)
{
	if (d->draining && d->done != NULL && d->n_guests == 0)
		timer_start(d->drained, 0, 0);
}

static void
guest_free(struct guest *g)
{
	struct node_door *d = g->of;

	TAILQ_REMOVE(&d->guests, g, link);
	if (g->session != NULL) {
		session_stats_add(&d->past, session_stats(g->session));
		d->n_guests--;
	}
	session_free(&g->session);
	tls_stream_free(&g->tls);
	preauth_leave(&g->place);
	free(g);
	node_door_say_drained(d);
}

static void
guest_refuse(struct guest *g, const char *why)
{
	char from[ADDR_TEXT_MAX], clean[256];

	g->of->refused++;
	log_limited(LOG_LEVEL_WARN, 6, "tunnel",
		"refused a connection to mesh.peerPort from=%s node=%s reason=\"%s\"",
		addr_text(&g->from, from), g->node[0] != '\0' ? g->node : "-",
		log_clean(clean, sizeof clean, why));
	guest_free(g);
}

static void
on_dropped(void *arg)
{
	guest_refuse(arg, "too many connections have not authenticated");
}

/* --- sessions ------------------------------------------------------------------------------- */

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	const struct guest *g = arg;

	*reason = "the certificate of this node has expired";
	if ((int64_t)(wall_ms() / 1000) >= g->ends_s)
		return 403;
	return stream_server_peer_opened(g->of->config.serve, g->node, st, request, reason);
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct guest *g = arg;

	if (rc == -EDQUOT) {
		floods_note(g->of->floods, g->node, loop_now_ms(g->of->config.loop));
		log_limited(LOG_LEVEL_WARN, FLOODS_LOGGED, "tunnel",
			"another node's session was cut, and it gets no other one for %d s: it "
			"floods "
			"this node; update its agent, or revoke it if its certificate is in other "
			"hands (edgewayctl node revoke) node=%s why=\"%s\"",
			FLOODS_REST_MS / 1000, g->node, why);
	} else {
		log_limited(LOG_LEVEL_INFO, 12, "tunnel",
			"another node's session has ended node=%s why=\"%s\"", g->node, why);
	}
	guest_free(g);
}

static void
on_slowed(void *arg)
{
	const struct guest *g = arg;

	floods_slowed(g->of->floods, g->node, 1, loop_now_ms(g->of->config.loop));
	log_limited(LOG_LEVEL_WARN, FLOODS_LOGGED, "tunnel",
		"another node asks for connections and gives them up, more than %d a second, and "
		"is "
		"read later: update its agent, or see what its pods dial node=%s",
		RESETS_PER_S, g->node);
}

static const struct session_events session_events = {
	.opened = on_opened, .slowed = on_slowed, .ended = on_ended};

/* A node needs one session, and a second one while its certificate or its agent is replaced. */
static void
node_door_make_room(struct node_door *d, const char *node)
{
	struct guest *g, *oldest = NULL;
	unsigned n = 0;

	TAILQ_FOREACH(g, &d->guests, link) {
		if (g->session == NULL || strcmp(g->node, node) != 0)
			continue;
		if (n++ == 0)
			oldest = g;
	}
	if (n >= NODE_DOOR_OF_A_NODE)
		guest_free(oldest);
}

/* NULL: it is a node that may come in; else why not. */
static const char *
guest_judge(const struct guest *g)
{
	const struct node_door_config *c = &g->of->config;
	const char *why;

	if (g->node[0] == '\0')
		return "its certificate names no node";
	if (strcmp(g->node, c->node) == 0)
		return "its certificate is of this very node";
	if (floods_rests(g->of->floods, g->node, loop_now_ms(c->loop)))
		return "a session of this node was cut a moment ago: it floods this node";
	if (c->refuses != NULL && (why = c->refuses(c->arg, g->node, g->serial)) != NULL)
		return why;
	return g->of->n_guests >= NODE_DOOR_GUESTS ? "too many nodes" : NULL;
}

static void
guest_come_in(struct guest *g)
{
	struct node_door *d = g->of;
	struct session_setup setup = {.loop = d->config.loop,
		.role = SESSION_SERVER,
		.budget = &d->budget,
		.limits = &d->limits,
		.udp = true,
		.events = &session_events,
		.arg = g};
	const char *why;
	bool other;

	preauth_leave(&g->place);
	other = g->nat && strcmp(g->node, tls_stream_peer(g->tls)) != 0;
	snprintf(g->node, sizeof g->node, "%s", tls_stream_peer(g->tls));
	g->ends_s = tls_stream_peer_ends(g->tls, g->serial);
	why = other ? "its certificate is not of the node that was to be met" : guest_judge(g);
	if (why != NULL) {
		guest_refuse(g, why);
		return;
	}
	node_door_make_room(d, g->node);
	g->since_ms = loop_now_ms(d->config.loop);
	setup.slot = fair_share_slot(g->node, strlen(g->node), d->seed);
	setup.wire = transport_tls(&g->tls);
	if (session_new(&setup, &g->session) < 0) {
		guest_refuse(g, "no HTTP/2 session can be made");
		return;
	}
	d->n_guests++;
	d->opened++;
	log_limited(
		LOG_LEVEL_INFO, 12, "tunnel", "another node has opened a session node=%s", g->node);
}

static void
on_tls(void *arg, enum tls_event event)
{
	struct guest *g = arg;
	char why[256];

	if (event == TLS_OPEN) {
		guest_come_in(g);
		return;
	}
	snprintf(why, sizeof why, "%s", tls_stream_why(g->tls));
	guest_refuse(g, why);
}

/* --- listening ------------------------------------------------------------------------------ */

/* expected: the node, across NAT; NULL: any. */
static void
node_door_accept(struct node_door *d, int fd, const char *expected)
{
	struct guest *g = xcalloc(1, sizeof *g);
	struct tls_setup setup = {.loop = d->config.loop,
		.fd = fd,
		.ctx = d->tls,
		.alpn = NODE_PEERS_ALPN,
		.proof = TLS_NODE,
		.deadline_ms = NODE_DOOR_SHAKE_MS,
		.place = &g->place,
		.on = on_tls,
		.arg = g};
	struct err err = {0};

	g->of = d;
	g->nat = expected != NULL;
	snprintf(g->node, sizeof g->node, "%s", g->nat ? expected : "");
	g->from = preauth_from(fd, NULL);
	g->place = (struct preauth_conn){.drop = on_dropped, .arg = g};
	TAILQ_INSERT_TAIL(&d->guests, g, link);
	if (!preauth_enter(d->preauth, &g->place, &g->from, loop_now_ms(d->config.loop))) {
		close(fd);
		guest_refuse(g, "too many connections of this address have not authenticated");
		return;
	}
	if (tls_stream_new(&setup, &g->tls, &err) < 0)
		guest_refuse(g, err.text);
}

static void
on_ready(void *arg, int listener, unsigned events)
{
	struct node_door *d = arg;

	(void)events;
	for (int i = 0; i < BATCH; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			node_door_accept(d, fd, NULL);
			continue;
		}
		if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
			return;
		log_limited(LOG_LEVEL_ERROR, 6, "tunnel",
			"cannot accept connections at mesh.peerPort, resting error=\"%s\"",
			strerror(errno));
		watch_set(d->watch, 0);
		timer_start(d->again, AGAIN_MS, 0);
		return;
	}
}

/* Where the kernel has no IPv6, IPv4 alone. REUSEPORT: an agent that takes over listens beside the
 * one that goes. */
static void
node_door_listen(struct node_door *d)
{
	struct addr any6 = {.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(d->config.port)},
		.len = sizeof any6.in6};
	struct addr any = addr_ipv4(INADDR_ANY, d->config.port);
	struct err err = {0};

	if (sock_listen(&any6, SOCK_REUSEPORT, &d->fd, NULL) < 0 &&
		sock_listen(&any, SOCK_REUSEPORT, &d->fd, &err) < 0) {
		if (d->error[0] == '\0')
			log_error("tunnel", "other nodes cannot dial this one: mesh.peerPort: %s",
				err.text);
		snprintf(d->error, sizeof d->error, "%s", err.text);
		d->fd = -1;
		timer_start(d->again, AGAIN_MS, 0);
		return;
	}
	d->error[0] = '\0';
	d->watch = watch_start(d->config.loop, d->fd, WATCH_READ, on_ready, d);
	log_info("tunnel", "other nodes may dial this one port=%u", d->config.port);
}

static void
on_again(void *arg)
{
	struct node_door *d = arg;

	if (d->draining)
		return;
	if (d->fd < 0)
		node_door_listen(d);
	else
		watch_set(d->watch, WATCH_READ);
}

static void
node_door_close(struct node_door *d)
{
	timer_cancel(d->again);
	watch_stop(&d->watch);
	if (d->fd >= 0)
		close(take_fd(&d->fd));
}

/* --- life ----------------------------------------------------------------------------------- */

static void
on_drained(void *arg)
{
	struct node_door *d = arg;
	loop_fn *done = d->done;

	d->done = NULL;
	if (done != NULL)
		done(d->done_arg);
}

struct node_door *
node_door_new(const struct node_door_config *config)
{
	struct node_door *d = xcalloc(1, sizeof *d);
	unsigned heartbeat = (unsigned)config->heartbeat_ms;

	random_bytes(&d->seed, sizeof d->seed);
	d->config = *config;
	d->fd = -1;
	d->limits = (struct session_limits){.max_streams = STREAMS_MOST,
		.ping_ms = heartbeat,
		.dead_ms = 2 * heartbeat + 1000,
		.resets_per_s = RESETS_PER_S};
	d->budget = (struct session_budget){
		.limit = NODE_PEERS_MEMORY, .shares = fair_share_new(NODE_PEERS_MEMORY)};
	d->floods = floods_new("node");
	d->preauth = preauth_new(config->loop, NODE_DOOR_WAITING, d->seed);
	d->again = timer_new(config->loop, on_again, d);
	d->drained = timer_new(config->loop, on_drained, d);
	TAILQ_INIT(&d->guests);
	return d;
}

void
node_door_free(struct node_door **out)
{
	struct node_door *d = take_ptr(out);
	struct guest *g;

	if (d == NULL)
		return;
	d->done = NULL;
	node_door_close(d);
	while ((g = TAILQ_FIRST(&d->guests)) != NULL)
		guest_free(g);
	timer_free(&d->again);
	timer_free(&d->drained);
	preauth_free(&d->preauth);
	floods_free(&d->floods);
	pki_ctx_free(&d->tls);
	fair_share_free(&d->budget.shares);
	free(d);
}

void
node_door_use(struct node_door *d, struct ssl_ctx_st *tls)
{
	pki_ctx_ref(tls);
	pki_ctx_free(&d->tls);
	d->tls = tls;
	if (d->fd < 0 && !d->draining)
		node_door_listen(d);
}

void
node_door_adopt(struct node_door *d, int fd, const char *node)
{
	if (d->tls != NULL && !d->draining)
		node_door_accept(d, fd, node);
	else
		close(fd);
}

void
node_door_check(struct node_door *d)
{
	const struct node_door_config *c = &d->config;
	struct guest *g, *next;
	const char *why;

	for (g = TAILQ_FIRST(&d->guests); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		if (g->session != NULL && c->refuses != NULL &&
			(why = c->refuses(c->arg, g->node, g->serial)) != NULL)
			guest_refuse(g, why);
	}
}

void
node_door_drain(struct node_door *d, loop_fn *done, void *arg)
{
	struct guest *g, *next;

	d->draining = true;
	d->done = done;
	d->done_arg = arg;
	node_door_close(d);
	for (g = TAILQ_FIRST(&d->guests); g != NULL; g = next) {
		next = TAILQ_NEXT(g, link);
		if (g->session != NULL)
			session_drain(g->session);
		else
			guest_free(g);
	}
	node_door_say_drained(d);
}

const char *
node_door_error(const struct node_door *d)
{
	return d->error;
}

/* --- state and metrics ---------------------------------------------------------------------- */

static struct session_stats
node_door_add(const struct node_door *d)
{
	struct session_stats sum = d->past;
	const struct guest *g;

	sum.streams = 0;
	TAILQ_FOREACH(g, &d->guests, link)
		if (g->session != NULL)
			session_stats_add(&sum, session_stats(g->session));
	return sum;
}

struct node_peers_sum
node_door_sum(const struct node_door *d)
{
	return (struct node_peers_sum){d->n_guests, node_door_add(d)};
}

void
node_door_metrics(const struct node_door *d, struct metrics *m)
{
	static const struct figure accepted[] = {
		FIGURE(struct node_door, opened, "edgeway_peers_accepted_total", "result=\"open\"",
			"Connections to mesh.peerPort, by what became of them.", NULL),
		FIGURE_ALSO(struct node_door, refused, "result=\"refused\"", NULL),
	};

	figures_metrics(FIGURES(accepted), d, m);
	floods_metrics(d->floods, m);
	metric_gauge(m, "edgeway_peers_listening", "1 while other nodes can dial this one.", NULL,
		d->fd >= 0);
}

void
node_door_floods(const struct node_door *d, struct buf *out)
{
	floods_state(d->floods, loop_now_ms(d->config.loop), out);
}

void
node_door_list_streams(
	const struct node_door *d, const char *node, const char **comma, struct buf *out)
{
	const struct guest *g;

	TAILQ_FOREACH(g, &d->guests, link)
		if (g->session != NULL)
			session_streams(g->session, node, comma, out);
}

void
node_door_state(const struct node_door *d, const char **comma, struct buf *out)
{
	uint64_t now = loop_now_ms(d->config.loop);
	char address[ADDR_TEXT_MAX];
	const struct guest *g;

	TAILQ_FOREACH(g, &d->guests, link) {
		const struct session_stats *s;

		if (g->session == NULL)
			continue;
		s = session_stats(g->session);
		buf_printf(out, "%s{\"peer\":", *comma);
		*comma = ",\n";
		json_add_text(out, g->node);
		buf_printf(out,
			",\"direction\":\"in\",\"path\":\"%s\",\"attempts\":0,\"state\":\"open\","
			"\"address\":\"%s\",\"since_"
			"s\":%llu,"
			"\"streams\":%u,\"bytes_in\":%llu,\"bytes_out\":%llu,\"rtt_ms\":%u,"
			"\"retry_ms\":0,\"error\":\"\"}",
			g->nat ? "nat" : "site", addr_text(&g->from, address),
			(unsigned long long)((now - g->since_ms) / 1000), s->streams,
			(unsigned long long)s->bytes_in, (unsigned long long)s->bytes_out,
			s->rtt_ms);
	}
}
