#include "tunnel/node/egress_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/core/hops.h"
#include "base/core/log.h"
#include "model/allow_from.h"
#include "model/json.h"
#include "tunnel/h2/relay.h"

enum { BREAKS_MAX = 3, REFUSED_MS = 20 };

enum result { RESULT_OK, RESULT_REFUSED, RESULT_LATE, RESULT_NO_HUB, RESULT_CANCELLED, RESULTS };

static const char *const result_names[RESULTS] = {
	"ok", "refused", "timeout", "no_hub", "cancelled"};

/* One connection, or flow of datagrams, from the request to its end. */
struct egress_client_trip {
	LIST_ENTRY(egress_client_trip) link;
	struct egress_client *of;
	struct egress_client_ask ask;
	unsigned status; /* the hub's answer; 0: none yet */
	int fd; /* until it is joined; -1: the stream itself is requested */
	egress_client_reached_fn *reached; /* with fd -1: the callback */
	void *arg;
	bool is_joined;
	int rc; /* why the stream cannot be opened */
	struct watch *watch; /* notices that the caller has closed */
	struct timer *deadline;
	struct node_peers_wait wait; /* for a session with the endpoint's node */
	bool by_peer; /* the stream is one of such a session */
	bool no_peer; /* it has been tried: the hub alone is left */
	uint64_t open_end_ms; /* deadline to reach the hub; 0: it is not waited for */
	struct stream *stream;
	struct relay *relay;
	unsigned breaks; /* of the connection to the hub, while it waited for the answer */
	/* deadline of the answer, retries included; 0: the hub has not been asked yet */
	uint64_t end_ms;
	bool soon; /* a retry is due in a moment */
};

LIST_HEAD(trips, egress_client_trip);

struct egress_client {
	struct tunnel_client_config config;
	loop_fn *doubted; /* the owner's */
	void *doubted_arg;
	struct tunnel_client *link;
	struct node_peers *peers; /* NULL: the hub alone is asked */
	uint16_t peer_port;
	bool nat;
	struct timer *idle;
	struct trips waiting, asked, joined; /* wait for the hub, for its answer; joined */
	unsigned n_pending, n_joined;
	uint64_t results[RESULTS], repeated, direct;
	void (*on_fading)(void *arg, const struct egress_client_ask *ask,
		bool doubted); /* NULL: no callback */
	void *fading_arg;
	loop_fn *on_rerouted; /* NULL: no callback */
	void *rerouted_arg;
	/* tunnel_client_opened when the present connection was doubted; 0: it is not */
	uint64_t doubted_at;
	/* the last endpoint without a node that the hub's rules refused, and why; "": none, or it
	 * was connected since */
	char closed_service[EGRESS_CLIENT_SERVICE_MAX + 1], closed_why[STREAM_REASON_MAX + 1];
};

/* --- the end -------------------------------------------------------------------------------- */

static void
trip_free(struct egress_client_trip *t)
{
	struct egress_client *o = t->of;

	LIST_REMOVE(t, link);
	node_peers_leave(&t->wait);
	watch_stop(&t->watch);
	if (t->fd >= 0)
		close(t->fd);
	timer_free(&t->deadline);
	relay_free(&t->relay);
	stream_close(&t->stream, STREAM_CANCELLED);
	free(t);
	if (o->n_pending + o->n_joined == 0 && o->idle != NULL)
		timer_start(o->idle, EGRESS_CLIENT_IDLE_MS, 0);
}

static void
give_up(struct egress_client_trip *t, enum result result, const char *why)
{
	egress_client_reached_fn *reached = t->reached;
	char said[STREAM_REASON_MAX + 1];
	struct egress_client *o = t->of;
	void *arg = t->arg;
	unsigned status = t->status;

	o->results[result]++;
	o->n_pending--;
	if (result != RESULT_CANCELLED)
		log_limited(LOG_LEVEL_WARN, 12, "tunnel",
			"an endpoint cannot be reached through the hub service=%s endpoint=%s "
			"node=%s "
			"error=\"%s\" directly=\"%s\"",
			t->ask.service, t->ask.authority, t->ask.node,
			log_clean(said, sizeof said, why),
			(t->ask.peer.len == 0 && !t->ask.nat) || o->peers == NULL
				? "not a node that may be dialled"
				: node_peers_why(o->peers, t->ask.node));
	trip_free(t);
	if (reached != NULL)
		reached(arg, NULL, status, why);
}

static void
on_relay_ended(void *arg, const struct relay_report *report)
{
	struct egress_client_trip *t = arg;
	struct egress_client *o = t->of;

	(void)report;
	o->n_joined--;
	trip_free(t);
}

/* --- requests to the hub -------------------------------------------------------------------- */

static void
on_fading(void *arg)
{
	const struct egress_client_trip *t = arg;
	const struct stream *st = t->relay != NULL ? relay_stream(t->relay) : NULL;
	bool doubted = st != NULL && stream_is_doubted(st) && !stream_is_silent(st);

	if (t->of->on_fading != NULL)
		t->of->on_fading(t->of->fading_arg, &t->ask, doubted);
}

static void
count_joined(struct egress_client_trip *t)
{
	struct egress_client *o = t->of;

	timer_free(&t->deadline);
	LIST_REMOVE(t, link);
	LIST_INSERT_HEAD(&o->joined, t, link);
	o->n_pending--;
	o->n_joined++;
	o->results[RESULT_OK]++;
	o->direct += t->by_peer;
	if (*t->ask.node == '\0' && strcmp(o->closed_service, t->ask.service) == 0)
		*o->closed_service = '\0';
}

static void
egress_client_join(struct egress_client_trip *t)
{
	static const char joined = EGRESS_CLIENT_JOINED;
	struct relay_setup setup = {.loop = t->of->config.loop, .ended = on_relay_ended, .arg = t};

	if (t->reached != NULL) {
		t->is_joined = true;
		count_joined(t);
		t->reached(t->arg, take_ptr(&t->stream), 200, "");
		return;
	}
	if (write(t->fd, &joined, 1) != 1) {
		give_up(t, RESULT_CANCELLED, "");
		return;
	}
	watch_stop(&t->watch);
	count_joined(t);
	stream_on_fading(t->stream, on_fading, t);
	setup.stream = take_ptr(&t->stream);
	t->relay = relay_join(&setup, take_fd(&t->fd));
	/* its node was reached while the hub was asked */
	if (!t->by_peer && !t->no_peer && t->of->peers != NULL &&
		node_peers_reached(t->of->peers, t->ask.node))
		on_fading(t);
}

static void egress_client_ask_hub_instead(struct egress_client_trip *t);

/* A node may know less of the Service than the hub does, or serve too much already; that the pod
 * itself is not reached it knows best. */
static bool
egress_client_peer_knows(unsigned status)
{
	return status == 502 || status == 504 || status == 508;
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct egress_client_trip *t = arg;

	t->status = status;
	if (status == 403 && *t->ask.node == '\0') {
		snprintf(t->of->closed_service, sizeof t->of->closed_service, "%s", t->ask.service);
		log_clean(t->of->closed_why, sizeof t->of->closed_why, reason);
	}
	if (status == 200)
		egress_client_join(t);
	else if (t->by_peer && !egress_client_peer_knows(status))
		egress_client_ask_hub_instead(t);
	else
		give_up(t, status == 504 ? RESULT_LATE : RESULT_REFUSED,
			*reason != '\0'      ? reason
				: t->by_peer ? "the endpoint's node refuses"
					     : "the hub refuses");
}

static uint64_t
left_ms(const struct egress_client_trip *t)
{
	uint64_t now = loop_now_ms(t->of->config.loop);

	return t->end_ms > now ? t->end_ms - now : 0;
}

static void
wait_again(struct egress_client_trip *t, bool soon)
{
	t->soon = soon;
	timer_start(t->deadline,
		MIN(left_ms(t), (uint64_t)(soon ? REFUSED_MS : EGRESS_CLIENT_OPEN_MS)), 0);
}

/* None of the caller's bytes go out before the answer, so the hub may be asked again: once it is
 * reachable, or, where it has refused, in a moment. */
static void
ask_again(struct egress_client_trip *t, bool soon)
{
	struct egress_client *o = t->of;

	stream_close(&t->stream, STREAM_CANCELLED);
	LIST_REMOVE(t, link);
	LIST_INSERT_HEAD(&o->waiting, t, link);
	o->repeated++;
	wait_again(t, soon);
}

static void
on_reset(void *arg, unsigned code)
{
	struct egress_client_trip *t = arg;

	if (t->by_peer) {
		egress_client_ask_hub_instead(t);
		return;
	}
	/* A flow of datagrams starts again with the client's next datagram. */
	if ((code == STREAM_REFUSED || (code == STREAM_LOST && t->reached == NULL)) &&
		t->breaks++ < BREAKS_MAX)
		ask_again(t, code == STREAM_REFUSED);
	else
		give_up(t, RESULT_NO_HUB,
			code == STREAM_LOST ? "the connection to the hub was lost"
					    : "the hub broke it off");
}

static const struct stream_events stream_events = {.answered = on_answered, .reset = on_reset};

static int
egress_client_stream(struct egress_client_trip *t, struct session *session)
{
	char hops[HOPS_TEXT_MAX];
	const struct stream_field fields[] = {{"edgeway-service", t->ask.service},
		{"edgeway-node", t->ask.node}, {HOPS_FIELD, hops_text(t->ask.hops, hops)},
		{"edgeway-enforces", ALLOW_FROM_KIND},
		{"edgeway-encrypt", t->ask.encrypted ? "1" : "0"}};
	const struct stream_request request = {.authority = t->ask.authority,
		.udp = t->reached != NULL,
		.fields = fields,
		.n_fields = ARRAY_LEN(fields)};

	return session_open(session, &request, &stream_events, t, &t->stream);
}

static void
egress_client_asked(struct egress_client_trip *t, bool by_peer)
{
	t->by_peer = by_peer;
	node_peers_leave(&t->wait);
	LIST_REMOVE(t, link);
	LIST_INSERT_HEAD(&t->of->asked, t, link);
	timer_start(t->deadline, left_ms(t), 0);
}

/* True: the endpoint's own node is asked. Else t->wait may wait for it. */
static bool
ask_peer(struct egress_client_trip *t)
{
	struct egress_client *o = t->of;
	const struct node_peers_ask ask = {.node = t->ask.node,
		.at = t->ask.peer,
		.urgent = tunnel_client_session(o->link) == NULL,
		.wait = &t->wait};
	struct session *session;
	int rc;

	if (o->peers == NULL || t->no_peer || (ask.at.len == 0 && !t->ask.nat) ||
		node_peers_waits(&t->wait))
		return false;
	session = node_peers_session(o->peers, &ask);
	if (session == NULL)
		return false;
	if (t->end_ms == 0)
		t->end_ms = loop_now_ms(o->config.loop) + EGRESS_CLIENT_ANSWER_MS;
	rc = egress_client_stream(t, session);
	if (rc == -EINPROGRESS && left_ms(t) > 0) { /* it has not announced its capabilities yet */
		wait_again(t, true);
		return true;
	}
	t->no_peer = rc < 0;
	if (rc == 0)
		egress_client_asked(t, true);
	return rc == 0;
}

static void
ask_hub(struct egress_client_trip *t)
{
	struct egress_client *o = t->of;
	int rc = egress_client_stream(t, tunnel_client_session(o->link));

	t->rc = 0;
	t->soon = false;
	if (t->end_ms == 0)
		t->end_ms = loop_now_ms(o->config.loop) + EGRESS_CLIENT_ANSWER_MS;
	if (rc == -ESHUTDOWN && t->breaks++ < BREAKS_MAX) {
		ask_again(t, true);
		return;
	}
	if (rc == -EINPROGRESS && left_ms(t) > 0) { /* it has not announced its capabilities yet */
		wait_again(t, true);
		return;
	}
	if (rc < 0) { /* reported in another turn */
		t->rc = rc;
		timer_start(t->deadline, 0, 0);
		return;
	}
	egress_client_asked(t, false);
}

/* Asks the hub, or waits for it; meanwhile the endpoint's node is tried again. */
static void
egress_client_begin_hub(struct egress_client_trip *t)
{
	struct egress_client *o = t->of;
	uint64_t now = loop_now_ms(o->config.loop), most = EGRESS_CLIENT_OPEN_MS;

	if (tunnel_client_session(o->link) != NULL) {
		ask_hub(t);
		return;
	}
	if (t->end_ms != 0)
		most = MIN(most, left_ms(t));
	if (t->open_end_ms == 0)
		t->open_end_ms = now + most;
	most = t->open_end_ms > now ? t->open_end_ms - now : 0;
	if (o->peers != NULL && t->ask.peer.len != 0 && !t->no_peer)
		most = MIN(most, (uint64_t)EGRESS_CLIENT_PEER_MS);
	timer_start(t->deadline, most, 0);
	tunnel_client_want(o->link, true);
}

/* The endpoint's own node first; the hub where that is not known to be reached. */
static void
egress_client_begin(struct egress_client_trip *t)
{
	if (ask_peer(t))
		return;
	if (!node_peers_waits(&t->wait) || t->of->peers == NULL ||
		*node_peers_why(t->of->peers, t->ask.node) != '\0')
		egress_client_begin_hub(t);
	else
		timer_start(t->deadline, EGRESS_CLIENT_PEER_MS, 0);
}

/* The dial of the endpoint's node takes long. It goes on for later calls; this one waits for it
 * only as long as there is no hub to ask. */
static void
egress_client_pass_peer(struct egress_client_trip *t)
{
	struct session *hub = tunnel_client_session(t->of->link);

	if (hub != NULL && session_is_silent(hub)) {
		timer_start(t->deadline, EGRESS_CLIENT_PEER_MS, 0);
		return;
	}
	if (hub != NULL)
		node_peers_leave(&t->wait);
	egress_client_begin_hub(t);
}

static void
on_peer(void *arg)
{
	struct egress_client_trip *t = arg;

	if (t->stream == NULL && !ask_peer(t) && t->open_end_ms == 0)
		egress_client_begin_hub(t);
}

static void
egress_client_ask_hub_instead(struct egress_client_trip *t)
{
	struct egress_client *o = t->of;

	stream_close(&t->stream, STREAM_CANCELLED);
	t->by_peer = false;
	t->no_peer = true;
	LIST_REMOVE(t, link);
	LIST_INSERT_HEAD(&o->waiting, t, link);
	o->repeated++;
	egress_client_begin_hub(t);
}

void
egress_client_peer_found(struct egress_client *o, const char *node)
{
	const struct egress_client_trip *t;

	LIST_FOREACH(t, &o->joined, link)
		if (!t->by_peer && o->on_fading != NULL && strcmp(t->ask.node, node) == 0)
			o->on_fading(o->fading_arg, &t->ask, false);
}

void
egress_client_peer_silent(struct egress_client *o)
{
	struct egress_client_trip *t, *next;

	for (t = LIST_FIRST(&o->asked); t != NULL; t = next) {
		next = LIST_NEXT(t, link);
		if (t->by_peer && stream_is_silent(t->stream))
			egress_client_ask_hub_instead(t);
	}
	/* requests on kept connections that are not answered yet */
	LIST_FOREACH(t, &o->joined, link) {
		const struct stream *st =
			t->by_peer && t->relay != NULL ? relay_stream(t->relay) : NULL;

		if (st != NULL && stream_is_silent(st) && o->on_fading != NULL)
			o->on_fading(o->fading_arg, &t->ask, true);
	}
}

static void
on_up(void *arg)
{
	struct egress_client *o = arg;
	struct egress_client_trip *t, *next;
	bool rerouted = o->doubted_at != 0 && tunnel_client_opened(o->link) != o->doubted_at;

	o->doubted_at = 0;
	if (rerouted && o->on_rerouted != NULL)
		o->on_rerouted(o->rerouted_arg);
	for (t = LIST_FIRST(&o->waiting); t != NULL; t = next) {
		next = LIST_NEXT(t, link);
		if (!node_peers_waits(&t->wait) || t->open_end_ms != 0)
			ask_hub(t);
	}
}

/* Another hub, or another path to this one, is being looked for. */
static void
egress_client_on_link_rerouted(void *arg)
{
	struct egress_client *o = arg;
	struct egress_client_trip *t, *next;

	o->doubted_at = tunnel_client_opened(o->link);
	for (t = LIST_FIRST(&o->asked); t != NULL; t = next) {
		next = LIST_NEXT(t, link);
		if (t->by_peer)
			continue;
		stream_close(&t->stream, STREAM_CANCELLED);
		LIST_REMOVE(t, link);
		LIST_INSERT_HEAD(&o->waiting, t, link);
		o->repeated++;
		timer_start(t->deadline, left_ms(t), 0);
	}
}

static void
on_doubted(void *arg)
{
	struct egress_client *o = arg;

	egress_client_on_link_rerouted(o);
	if (o->doubted != NULL)
		o->doubted(o->doubted_arg);
}

static void
on_deadline(void *arg)
{
	struct egress_client_trip *t = arg;

	if (t->rc < 0) {
		give_up(t, RESULT_NO_HUB,
			t->rc == -EAGAIN                    ? "too many connections are open"
				: t->rc == -EPROTONOSUPPORT ? "the hub carries no UDP for nodes"
							    : "the hub takes no more");
	} else if (t->stream == NULL && t->open_end_ms == 0 && node_peers_waits(&t->wait)) {
		egress_client_pass_peer(t);
	} else if (t->soon ||
		(t->stream == NULL && loop_now_ms(t->of->config.loop) < t->open_end_ms)) {
		t->soon = false;
		egress_client_begin(t);
	} else if (t->stream != NULL) {
		give_up(t, RESULT_LATE,
			t->by_peer ? "the endpoint's node does not answer"
				   : "the hub does not answer");
	} else {
		give_up(t, RESULT_NO_HUB,
			t->breaks > 0 ? "the connection to the hub was lost, and is not back"
				      : "the hub cannot be reached");
	}
}

/* The caller sends nothing before it is joined, so the event means that it has closed. If it has
 * sent something after all, that waits for the stream. */
static void
on_gone(void *arg, int fd, unsigned events)
{
	struct egress_client_trip *t = arg;
	char byte;

	if ((events & WATCH_READ) && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		watch_set(t->watch, WATCH_HUP);
	else
		give_up(t, RESULT_CANCELLED, "");
}

/* NULL: the limit is reached. */
static struct egress_client_trip *
trip_new(struct egress_client *o, const struct egress_client_ask *ask)
{
	struct egress_client_trip *t;

	if (o->n_pending + o->n_joined >= EGRESS_CLIENT_MOST) {
		o->results[RESULT_NO_HUB]++;
		return NULL;
	}
	t = xcalloc(1, sizeof *t);
	t->of = o;
	t->fd = -1;
	t->ask = *ask;
	t->deadline = timer_new(o->config.loop, on_deadline, t);
	t->wait = (struct node_peers_wait){.done = on_peer, .arg = t};
	LIST_INSERT_HEAD(&o->waiting, t, link);
	o->n_pending++;
	timer_cancel(o->idle);
	return t;
}

void
egress_client_open(struct egress_client *o, int fd, const struct egress_client_ask *ask)
{
	struct egress_client_trip *t = trip_new(o, ask);

	if (t == NULL) {
		close(fd);
		return;
	}
	t->fd = fd;
	t->watch = watch_start(o->config.loop, fd, WATCH_READ, on_gone, t);
	egress_client_begin(t);
}

struct egress_client_trip *
egress_client_reach(struct egress_client *o, const struct egress_client_ask *ask,
	egress_client_reached_fn *reached, void *arg)
{
	struct egress_client_trip *t = trip_new(o, ask);

	if (t == NULL)
		return NULL;
	t->reached = reached;
	t->arg = arg;
	egress_client_begin(t);
	return t;
}

void
egress_client_leave(struct egress_client_trip **out)
{
	struct egress_client_trip *t = take_ptr(out);

	if (t == NULL)
		return;
	if (t->is_joined) {
		t->of->n_joined--;
	} else {
		t->of->n_pending--;
		t->of->results[RESULT_CANCELLED]++;
	}
	trip_free(t);
}

/* --- life ----------------------------------------------------------------------------------- */

static void
on_idle(void *arg)
{
	struct egress_client *o = arg;

	tunnel_client_want(o->link, false);
}

struct egress_client *
egress_client_new(const struct tunnel_client_config *config)
{
	struct egress_client *o = xcalloc(1, sizeof *o);

	o->config = *config;
	o->config.forward = true;
	o->doubted = config->doubted;
	o->doubted_arg = config->up_arg;
	o->config.up = on_up;
	o->config.doubted = on_doubted;
	o->config.rerouted = egress_client_on_link_rerouted;
	o->config.up_arg = o;
	o->link = tunnel_client_new(&o->config);
	o->idle = timer_new(config->loop, on_idle, o);
	LIST_INIT(&o->waiting);
	LIST_INIT(&o->asked);
	LIST_INIT(&o->joined);
	return o;
}

static void
free_all(struct trips *trips)
{
	while (!LIST_EMPTY(trips))
		trip_free(LIST_FIRST(trips));
}

void
egress_client_free(struct egress_client **out)
{
	struct egress_client *o = take_ptr(out);

	if (o == NULL)
		return;
	timer_free(&o->idle);
	free_all(&o->waiting);
	free_all(&o->asked);
	free_all(&o->joined);
	tunnel_client_free(&o->link);
	free(o);
}

void
egress_client_use_peers(struct egress_client *o, struct node_peers *peers, uint16_t port)
{
	o->peers = peers;
	o->peer_port = port;
}

void
egress_client_use_nat(struct egress_client *o, bool nat)
{
	o->nat = nat;
}

void
egress_client_ask_of(const struct egress_client *o, struct egress_client_ask *to,
	const struct service *s, const struct endpoint *e, unsigned hops)
{
	*to = (struct egress_client_ask){
		.hops = hops, .encrypted = (e->flags & ENDPOINT_ENCRYPTED) != 0};
	snprintf(to->service, sizeof to->service, "%s/%s", s->namespace, s->name);
	snprintf(to->node, sizeof to->node, "%s", e->node);
	endpoint_text(e, to->authority);
	if (o->peers == NULL || *e->peer == '\0' ||
		addr_parse(&to->peer, e->peer, o->peer_port, NULL) < 0)
		to->peer = (struct addr){0};
	to->nat = o->nat && o->peers != NULL && to->peer.len == 0 && *e->node != '\0';
}

void
egress_client_use(struct egress_client *o, const struct tunnel_client_hub *hub)
{
	tunnel_client_use(o->link, hub);
}

void
egress_client_network(struct egress_client *o)
{
	tunnel_client_network(o->link);
}

void
egress_client_multipath(struct egress_client *o, bool several)
{
	tunnel_client_multipath(o->link, several);
}

bool
egress_client_busy(const struct egress_client *o)
{
	return tunnel_client_streams(o->link) > 0;
}

bool
egress_client_paths_lost(struct egress_client *o, struct in6_addr *local)
{
	return tunnel_client_paths_lost(o->link, local);
}

void
egress_client_probe(struct egress_client *o)
{
	tunnel_client_probe(o->link);
}

void
egress_client_on_fading(struct egress_client *o,
	void (*fn)(void *arg, const struct egress_client_ask *ask, bool doubted), void *arg)
{
	o->on_fading = fn;
	o->fading_arg = arg;
}

void
egress_client_on_rerouted(struct egress_client *o, loop_fn *fn, void *arg)
{
	o->on_rerouted = fn;
	o->rerouted_arg = arg;
}

/* --- state and metrics ---------------------------------------------------------------------- */

void
egress_client_metrics(const struct egress_client *o, struct metrics *m)
{
	static const char help[] =
		"Connections to endpoints that only the hub reaches, by what became of them.";
	char label[64];

	for (unsigned i = 0; i < RESULTS; i++)
		metric_counter(m, "edgeway_tunnel_outward_total", help,
			metric_label(label, sizeof label, "result", result_names[i]),
			o->results[i]);
	metric_counter(m, "edgeway_tunnel_outward_repeated_total",
		"Times that the hub was asked again since the connection to it broke before the "
		"answer.",
		NULL, o->repeated);
	metric_counter(m, "edgeway_tunnel_outward_direct_total",
		"Of the connections that were made, those by the endpoint's own node, not the hub.",
		NULL, o->direct);
}

void
egress_client_state(const struct egress_client *o, struct buf *out)
{
	buf_adds(out, "{");
	tunnel_client_state(o->link, out);
	buf_printf(out, ",\"pending\":%u,\"joined\":%u,\"direct\":%llu,\"results\":{", o->n_pending,
		o->n_joined, (unsigned long long)o->direct);
	for (unsigned i = 0; i < RESULTS; i++)
		buf_printf(out, "%s\"%s\":%llu", i > 0 ? "," : "", result_names[i],
			(unsigned long long)o->results[i]);
	buf_adds(out, "},\"closed\":{\"service\":");
	json_add_text(out, o->closed_service);
	buf_adds(out, ",\"why\":");
	json_add_text(out, *o->closed_service != '\0' ? o->closed_why : "");
	buf_adds(out, "}}");
}

void
egress_client_streams(
	const struct egress_client *o, const char *node, const char **comma, struct buf *out)
{
	tunnel_client_streams_state(o->link, node, comma, out);
}
