/*
 * The life cycle of a client connection. Once its target is connected, its descriptor goes to a
 * relay (CONNECT, maps, SNI, redirect), or client_conn_exchange.c forwards its requests one by one.
 * A function that returns false has freed the connection; many others may free it, so callers use
 * them last.
 */
#include "hub/ingress/client_conn.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void on_ready(void *arg, int fd, unsigned events);
static void on_timer(void *arg);

void
client_conn_audit(struct client_conn *v, unsigned status, uint64_t to_edge, uint64_t from_edge,
	const char *end)
{
	static struct log_limit empty; /* connections without a request would fill the log */
	char text[ACCESS_NAME_MAX + 8];
	struct ingress *in = v->ingress;
	struct caller caller;

	in->bytes_to_edge += to_edge;
	in->bytes_from_edge += from_edge;
	if (status != 200)
		in->refused++;
	grant_audit(in->config.grants,
		&(struct audit){
			.door = v->door->name,
			.caller = caller_text(caller_load(v->caller, &caller), text),
			.target = v->target,
			.status = status,
			.sent = to_edge,
			.received = from_edge,
			.since_ms = v->started_ms,
			.end = end,
			.limit = v->target == NULL ? &empty : NULL,
		});
	if (v->span != NULL)
		client_conn_trace_end(
			v, &(struct client_conn_end){status, to_edge, from_edge, end});
}

void
client_conn_timer(struct client_conn *v, uint64_t ms)
{
	if (v->timer == NULL)
		v->timer = timer_new(v->ingress->config.loop, on_timer, v);
	timer_start(v->timer, ms, 0);
}

static void
client_conn_leave_place(struct client_conn *v)
{
	if (v->place != NULL)
		preauth_leave(v->place);
	free(take_ptr(&v->place));
}

/* A TLS bridge still sends its remaining bytes and then ends by itself, unless the connection is
 * reset. */
static void
let_go(struct leg **leg, bool reset, bool near)
{
	struct leg *l = take_ptr(leg);

	if (l == NULL)
		return;
	l->visit = NULL;
	if (reset || l->over)
		leg_free(l);
	else if (near)
		bridge_worker_leave(l->bridge);
	else /* the bridge to the target ends with its stream */
		bridge_worker_unhold(l->bridge);
}

static void
client_conn_end(struct client_conn *v, bool reset)
{
	if (v->span != NULL) /* there was no audit line for it */
		client_conn_trace_end(v, &(struct client_conn_end){499, 0, 0, "broken off"});
	connector_cancel(&v->reaching);
	exchange_free(v);
	/* ahead of the bridges, whose end would be one in good order to it */
	relay_worker_free(&v->relay);
	let_go(&v->near, reset, true);
	let_go(&v->far, reset, false);
	if (v->stream != NULL)
		stream_close(&v->stream, STREAM_CANCELLED);
	watch_stop(&v->watch);
	sock_close(&v->fd, reset);
	timer_free(&v->timer);
	buf_fini(&v->in);
	buf_fini(&v->out);
	TAILQ_REMOVE(&v->ingress->visits, v, entry);
	client_conn_leave_place(v);
	v->ingress->n_visits--;
	grant_end(&v->grant);
	free(v->caller);
	free(v->preface);
	free(v->sni);
	free(v->target);
	free(v);
}

void
client_conn_free(struct client_conn *v)
{
	client_conn_end(v, false);
}

void
client_conn_abort(struct client_conn *v)
{
	client_conn_end(v, true);
}

/* --- carrying bytes ------------------------------------------------------------------------- */

static void
on_relay_ended(void *arg, const struct relay_report *report)
{
	struct client_conn *v = arg;

	client_conn_audit(v, 200, v->fed + report->to_stream, report->to_other, report->why);
	client_conn_end(v, !report->whole);
}

void
client_conn_break(struct client_conn *v, const char *why)
{
	if (v->relay != NULL) {
		relay_worker_break(v->relay, why);
		return;
	}
	client_conn_audit(v, 499, 0, 0, why);
	client_conn_abort(v);
}

/* host: the name that the target must prove, if TLS is used towards it. */
static void
client_conn_join(struct client_conn *v, struct stream *stream, const char *host)
{
	struct relay_setup setup = {
		.loop = v->ingress->config.loop,
		.stream = stream,
		.ended = on_relay_ended,
		.arg = v,
		.rates = {grant_rate(&v->grant, QUOTA_CALLER), grant_rate(&v->grant, QUOTA_NODE)},
	};
	int fd;

	timer_free(&v->timer);
	watch_stop(&v->watch);
	/* Together with the bytes sent during the dial this is at most CLIENT_CONN_IN_MAX, which
	 * fits even while memory is short and stream_room returns less. */
	if (buf_len(&v->in) > 0 && v->door->onward == NULL) {
		stream_write(stream, buf_at(&v->in), buf_len(&v->in));
		v->fed += buf_len(&v->in);
	}
	buf_fini(&v->in);
	buf_fini(&v->out);
	free(take_ptr(&v->preface));
	v->state = CLIENT_CONN_RELAY;
	fd = take_fd(&v->fd);
	if (v->door->onward != NULL &&
		(fd = leg_onward(v, fd, *host != '\0' ? host : v->sni)) < 0) {
		stream_close(&stream, STREAM_CANCELLED);
		client_conn_audit(v, 503, 0, 0, strerror(-fd));
		client_conn_abort(v);
		return;
	}
	/* after a 101 the stream is one that was opened for requests */
	v->relay = relay_worker_join(v->held ? v->ingress->config.sessions : NULL, &setup, fd);
}

/* True if the client has read everything that we have written. Nothing may arrive in the same read
 * as the 200: kube-apiserver refuses an answer that has a byte behind its head. */
static bool
caller_has_read(const struct client_conn *v)
{
	int unread = 0;

	return buf_len(&v->out) == 0 &&
		(v->door->kind != DOOR_EGRESS || buf_len(&v->in) > 0 ||
			ioctl(v->fd, SIOCOUTQ, &unread) < 0 || unread == 0);
}

/* Writes `in`, which may be more than a stream takes at once. True: nothing is left. */
static bool
client_conn_feed(struct client_conn *v)
{
	size_t n;

	/* Until nothing is left, or stream_room has returned 0: only then does the stream report
	 * new room. */
	while (buf_len(&v->in) > 0 && (n = MIN(stream_room(v->stream), buf_len(&v->in))) > 0) {
		stream_write(v->stream, buf_at(&v->in), n);
		v->fed += n;
		buf_consume(&v->in, n);
	}
	return buf_len(&v->in) == 0;
}

static void
client_conn_join_when_read(struct client_conn *v)
{
	if (!caller_has_read(v))
		client_conn_timer(v, CLIENT_CONN_HOLD_MS);
	else if (!v->h2 || client_conn_feed(v))
		client_conn_join(v, take_ptr(&v->stream), "");
}

/* --- connecting ----------------------------------------------------------------------------- */

static void
on_early_reset(void *arg, unsigned code)
{
	struct client_conn *v = arg;

	client_conn_audit(v, 200, 0, 0, code == STREAM_LOST ? "the session has ended" : "reset");
	client_conn_abort(v);
}

static void
on_room(void *arg)
{
	client_conn_update(arg);
}

void
client_conn_greet(struct client_conn *v, struct stream *stream)
{
	static const struct stream_events events = {.writable = on_room, .reset = on_early_reset};

	v->stream = stream;
	stream_use(stream, &events, v);
	v->state = CLIENT_CONN_GREETING;
	client_conn_update(v);
}

/* The answer has been granted, or is no 200. */
static void
client_conn_reached(struct client_conn *v, const struct connector_answer *answer)
{
	free(v->target);
	v->target = xstrdup(answer->target);
	if (v->span != NULL)
		client_conn_trace_reached(v, answer);
	if (v->h2 && answer->status == 200) {
		client_conn_greet(v, answer->stream);
	} else if (v->h2) {
		client_conn_h2_refuse(v, answer->status, answer->reason);
	} else if (v->door->kind == DOOR_HTTP || v->door->kind == DOOR_EGRESS) {
		client_conn_http_reached(v, answer);
	} else if (answer->status == 200) {
		client_conn_join(v, answer->stream, answer->node);
	} else if (v->door->kind == DOOR_SNI) {
		client_conn_sni_refuse(v, answer->status, answer->reason);
	} else {
		client_conn_audit(v, answer->status, 0, 0, answer->reason);
		client_conn_abort(v);
	}
}

static void
on_reached(void *arg, struct connector_answer *answer)
{
	struct client_conn *v = arg;
	struct caller caller;

	v->reaching = NULL;
	v->fed += answer->sent;
	buf_consume(&v->in, answer->sent);
	connector_grant(answer, &v->grant, caller_load(v->caller, &caller));
	client_conn_reached(v, answer);
}

/* True if the client sends its first bytes without waiting for a response of ours. */
static bool
speaks_first(const struct client_conn *v)
{
	return v->door->kind == DOOR_FIXED || v->door->kind == DOOR_SNI ||
		v->door->kind == DOOR_REDIRECT;
}

bool
client_conn_reach(struct client_conn *v, const char *host, uint16_t port, const char *dest)
{
	struct connector *to = v->ingress->config.reach;
	struct caller caller;
	struct connector_request request = {
		.caller = caller_load(v->caller, &caller),
		.host = host,
		.port = port,
		.dest = dest,
		.names = v->door->names,
		.hops = v->passes,
		.full = grant_take(&v->grant, v->ingress->config.grants, &caller),
		.first = speaks_first(v) && v->door->onward == NULL ? &v->in : NULL,
		.kept = v->exchange != NULL,
		.held = v->exchange == NULL,
	};
	struct connector_answer answer;

	if (buf_len(&v->in) == 0)
		buf_release(&v->in);
	if (v->exchange == NULL)
		timer_free(&v->timer);
	else if (v->timer != NULL)
		timer_cancel(v->timer); /* it is started for the next request again */
	v->state = CLIENT_CONN_REACHING;
	v->held = request.held;
	v->ingress->requests++;
	v->started_ms = loop_now_ms(v->ingress->config.loop);
	if (client_conn_traces(v) && !v->talked) /* else its header section has begun the span */
		client_conn_trace_begin(v, NULL, host, port);
	request.trace = v->span != NULL ? &v->span->context : NULL;
	if (exchange_may_reuse(v) && connector_reuse(to, &request, &v->grant, &answer)) {
		client_conn_leave_place(v);
		client_conn_reached(v, &answer);
		return false;
	}
	v->reaching = connector_start(to, &request, on_reached, v);
	if (connector_is_let_in(v->reaching))
		client_conn_leave_place(v);
	return true;
}

/* --- the client's socket -------------------------------------------------------------------- */

void
client_conn_linger(struct client_conn *v)
{
	v->state = CLIENT_CONN_LINGER;
	buf_fini(&v->in); /* a full buffer would leave no room to read the input that is dropped */
	grant_end(&v->grant);
	client_conn_timer(v, CLIENT_CONN_IDLE_MS);
	client_conn_update(v);
}

void
client_conn_part(struct client_conn *v)
{
	if (buf_len(&v->out) > 0)
		client_conn_linger(v);
	else
		client_conn_free(v);
}

/* The caller has reset its connection, perhaps in the middle of something. */
static void
client_conn_broke(struct client_conn *v)
{
	static const char why[] = "the caller broke it off";

	if (v->state == CLIENT_CONN_EXCHANGE)
		exchange_audit(v, 499, why);
	else if (v->state == CLIENT_CONN_REACHING || v->state == CLIENT_CONN_GREETING)
		client_conn_audit(v, 499, v->fed, 0, why);
	client_conn_abort(v);
}

bool
client_conn_flush(struct client_conn *v)
{
	bool moved = false;
	ssize_t n = 0;

	while (buf_len(&v->out) > 0 && (n = buf_write(&v->out, v->fd)) > 0)
		moved = true;
	if (n < 0 && n != -EAGAIN) {
		client_conn_broke(v);
		return false;
	}
	if (buf_len(&v->out) == 0)
		buf_release(&v->out);
	else if (moved && (v->state == CLIENT_CONN_LINGER || v->state == CLIENT_CONN_HEAD))
		client_conn_timer(v, CLIENT_CONN_IDLE_MS);
	return true;
}

static size_t
in_max(const struct client_conn *v)
{
	return v->h2 && v->state == CLIENT_CONN_HEAD ? CLIENT_CONN_H2_MAX : CLIENT_CONN_IN_MAX;
}

static bool
wants_input(const struct client_conn *v)
{
	if (v->eof || (v->door->onward != NULL && v->state == CLIENT_CONN_REACHING))
		/* for TLS to the target, no byte may be read from the socket before the bridge does
		 * it */
		return false;
	return v->state == CLIENT_CONN_LINGER || buf_len(&v->in) < in_max(v);
}

/* The last response has been sent: shuts the output down, then waits for the client to close or for
 * the timer. False: the connection is gone. */
static bool
client_conn_shut(struct client_conn *v)
{
	if (v->eof) {
		client_conn_free(v);
		return false;
	}
	if (!v->shut)
		client_conn_timer(v, CLIENT_CONN_LINGER_MS);
	v->shut = true;
	shutdown(v->fd, SHUT_WR);
	return true;
}

void
client_conn_wait(struct client_conn *v)
{
	unsigned interest = 0;

	if (wants_input(v))
		interest |= WATCH_READ;
	if (buf_len(&v->out) > 0)
		interest |= WATCH_WRITE;
	watch_set(v->watch, interest != 0 ? interest : WATCH_HUP);
}

void
client_conn_update(struct client_conn *v)
{
	if (v->fd < 0 || !client_conn_flush(v))
		return;
	if (v->state == CLIENT_CONN_GREETING) {
		if (buf_len(&v->out) == 0 && !client_conn_timed(v)) {
			client_conn_join_when_read(v);
			if (v->state == CLIENT_CONN_RELAY)
				return;
		}
	} else if (v->state == CLIENT_CONN_LINGER && buf_len(&v->out) == 0 &&
		!client_conn_shut(v)) {
		return;
	}
	client_conn_wait(v);
}

/* The client has half-closed. False: the connection is gone. */
static bool
on_end(struct client_conn *v)
{
	v->eof = true;
	switch (v->state) {
	case CLIENT_CONN_HEAD:
		if (!client_conn_over(v) && !v->h2)
			return true; /* what waits is answered */
		client_conn_part(v);
		return false;
	case CLIENT_CONN_REACHING:
		/* A client that sent CONNECT and nothing after it must keep the connection open
		 * until the response; others may already have sent everything. */
		if (speaks_first(v) || v->exchange != NULL || buf_len(&v->in) > 0)
			return true;
		client_conn_audit(v, 499, 0, 0, "the caller went away");
		client_conn_free(v);
		return false;
	case CLIENT_CONN_LINGER:
		if (buf_len(&v->out) > 0)
			return true;
		client_conn_free(v);
		return false;
	case CLIENT_CONN_EXCHANGE:
		if (exchange_request_done(v) || buf_len(&v->in) > 0)
			return true;
		client_conn_audit(v, 499, 0, 0, "the caller went away within its request");
		client_conn_abort(v);
		return false;
	case CLIENT_CONN_GREETING:
	case CLIENT_CONN_RELAY:
		return true;
	}
	return true;
}

/* False: the connection is gone. */
static bool
read_some(struct client_conn *v)
{
	size_t most = in_max(v) - MIN(in_max(v), buf_len(&v->in));
	ssize_t n;

	if (most == 0)
		return true;
	do
		n = read(v->fd, v->ingress->input, most);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return true;
	if (n < 0) {
		client_conn_broke(v);
		return false;
	}
	if (n == 0)
		return on_end(v);
	if (v->state != CLIENT_CONN_LINGER)
		buf_add(&v->in, v->ingress->input, (size_t)n);
	return true;
}

static void
client_conn_proceed(struct client_conn *v)
{
	switch (v->state) {
	case CLIENT_CONN_HEAD:
		if (v->door->kind == DOOR_SNI)
			client_conn_sni_input(v);
		else
			client_conn_http_input(v);
		return;
	case CLIENT_CONN_EXCHANGE:
		exchange_pump(v);
		return;
	case CLIENT_CONN_REACHING:
		connector_more(v->reaching);
		client_conn_update(v);
		return;
	default:
		client_conn_update(v);
	}
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct client_conn *v = arg;

	if ((events & WATCH_HUP) && sock_error(fd) != 0) {
		client_conn_broke(v);
		return;
	}
	if ((events & (WATCH_READ | WATCH_HUP)) && wants_input(v) && !read_some(v))
		return;
	if (v->state == CLIENT_CONN_GREETING && buf_len(&v->in) > 0)
		timer_free(&v->timer);
	client_conn_proceed(v);
}

static void
on_timer(void *arg)
{
	struct client_conn *v = arg;

	switch (v->state) {
	case CLIENT_CONN_GREETING:
		client_conn_update(v);
		return;
	case CLIENT_CONN_EXCHANGE:
		exchange_pump(v);
		return;
	case CLIENT_CONN_HEAD:
		if (v->h2) {
			client_conn_h2_refuse(v, 408, "no request came in time");
			return;
		}
		if (buf_len(&v->in) > 0 && v->door->kind != DOOR_SNI) {
			client_conn_http_refuse(
				v, 408, "the request's head did not come in time", true);
			return;
		}
		client_conn_part(v);
		return;
	case CLIENT_CONN_LINGER:
		if (buf_len(&v->out) > 0) { /* it must not look whole */
			client_conn_abort(v);
			return;
		}
		break;
	default:
		break;
	}
	client_conn_free(v);
}

/* Begins with whatever can be done before the client has sent anything. */
static void
client_conn_begin(struct client_conn *v)
{
	const struct door *door = v->door;

	if (door->kind == DOOR_SNI && door->tls != NULL && *v->sni == '\0') {
		client_conn_sni_refuse(
			v, 400, "no server name in the TLS ClientHello: it names the node");
		return;
	}
	if (door->kind == DOOR_FIXED)
		client_conn_reach(v, door->host, door->port, door->dest);
	else if (door->kind == DOOR_SNI && door->tls != NULL)
		client_conn_reach(v, v->sni, door->port, door->dest);
	else
		client_conn_timer(v, CLIENT_CONN_HEAD_MS);
	client_conn_update(v);
}

static void
client_conn_on_dropped(void *arg)
{
	client_conn_abort(arg);
}

struct client_conn *
ingress_begin(struct ingress *i, const struct door *door, int fd, const struct caller *caller,
	struct leg *leg, const char *sni)
{
	struct client_conn *v = xcalloc(1, sizeof *v);

	v->place = xmalloc(sizeof *v->place);
	*v->place = (struct preauth_conn){.drop = client_conn_on_dropped, .arg = v};
	if (!preauth_enter(
		    i->config.preauth, v->place, &caller->addr, loop_now_ms(i->config.loop))) {
		i->full++;
		free(v->place);
		free(v);
		close(fd);
		return NULL;
	}
	v->ingress = i;
	v->door = door;
	v->caller = caller_keep(caller);
	v->fd = fd;
	buf_init(&v->in, CLIENT_CONN_H2_MAX);
	buf_init(&v->out, BUF_UNLIMITED);
	v->watch = watch_start(i->config.loop, fd, WATCH_HUP, on_ready, v);
	v->started_ms = loop_now_ms(i->config.loop);
	TAILQ_INSERT_TAIL(&i->visits, v, entry);
	i->n_visits++;
	v->sni = sni != NULL ? xstrdup(sni) : NULL;
	v->near = leg;
	if (leg != NULL)
		leg->visit = v;
	if (door->kind != DOOR_REDIRECT)
		client_conn_begin(v);
	return v;
}
