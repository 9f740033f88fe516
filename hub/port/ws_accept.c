#include "hub/port/ws_accept.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/preauth.h"
#include "base/core/sock.h"
#include "base/http/ws_tunnel.h"
#include "base/http/ws_tunnel_head.h"
#include "base/tls/tls_handshake.h"
#include "hub/port/route.h"

struct one {
	TAILQ_ENTRY(one) link; /* in `strangers` or in `open` */
	struct preauth_conn place; /* while in `strangers` */
	struct ws_accept *of;
	struct tls_handshake *handshake; /* until it is done */
	struct transport *wire; /* while the request is read and answered */
	struct buf in, out;
	struct ws_tunnel *carrier;
	uint64_t since_ms;
	char from[ADDR_TEXT_MAX + sizeof WS_ACCEPT_VIA];
};

TAILQ_HEAD(ones, one);

struct ws_accept {
	struct ws_accept_config config;
	struct timer *timer; /* for the stranger that has waited longest */
	struct ones strangers, open;
	size_t n_strangers, n_open;
	struct ws_tunnel_stats past;
	uint64_t broken; /* lost, or ended for bad frames */
};

/* --- the end -------------------------------------------------------------------------------- */

static void
one_free(struct one *o)
{
	struct ws_accept *c = o->of;
	const struct ws_tunnel_stats *s;

	if (o->carrier != NULL) {
		s = ws_tunnel_stats(o->carrier);
		c->past.bytes_in += s->bytes_in;
		c->past.bytes_out += s->bytes_out;
		TAILQ_REMOVE(&c->open, o, link);
		c->n_open--;
		ws_tunnel_free(&o->carrier);
	} else {
		TAILQ_REMOVE(&c->strangers, o, link);
		preauth_leave(&o->place);
		c->n_strangers--;
	}
	tls_handshake_free(&o->handshake);
	if (o->wire != NULL)
		o->wire->ops->free(o->wire);
	buf_fini(&o->in);
	buf_fini(&o->out);
	free(o);
}

static void
ws_accept_drop(struct one *o, const char *why)
{
	log_limited(LOG_LEVEL_WARN, 6, "hub",
		"a websocket of a node was dropped peer=%s why=\"%s\"", o->from, why);
	one_free(o);
}

static void
set_timer(struct ws_accept *c)
{
	const struct one *o = TAILQ_FIRST(&c->strangers);
	uint64_t now = loop_now_ms(c->config.loop), end;

	if (o == NULL) {
		timer_cancel(c->timer);
		return;
	}
	end = o->since_ms + WS_ACCEPT_MS;
	timer_start(c->timer, end > now ? end - now : 1, 0);
}

static void
drop_late(struct ws_accept *c, uint64_t ms)
{
	uint64_t now = loop_now_ms(c->config.loop);
	struct one *o;

	while ((o = TAILQ_FIRST(&c->strangers)) != NULL && now - o->since_ms >= ms)
		ws_accept_drop(o, "no whole request for a websocket in time");
}

static void
on_timer(void *arg)
{
	struct ws_accept *c = arg;

	drop_late(c, WS_ACCEPT_MS);
	set_timer(c);
}

static void
on_ended(void *arg, bool fault, const char *why)
{
	struct one *o = arg;

	o->of->broken += fault;
	if (fault)
		log_limited(LOG_LEVEL_WARN, 12, "hub",
			"a websocket that carried a node's connection has ended peer=%s why=\"%s\"",
			o->from, why);
	one_free(o);
}

/* --- the request ---------------------------------------------------------------------------- */

/* Answers a refused request only if that is possible at once: we do not wait for strangers. */
static void
ws_accept_refuse(struct one *o, unsigned status, const char *why)
{
	log_limited(LOG_LEVEL_WARN, 6, "hub",
		"a websocket of a node was refused peer=%s status=%u reason=\"%s\"", o->from,
		status, why);
	ws_tunnel_refuse(&o->out, status, why);
	(void)o->wire->ops->write(o->wire, buf_at(&o->out), buf_len(&o->out));
	one_free(o);
}

static void
ws_accept_join(struct one *o, size_t head)
{
	struct ws_accept *c = o->of;
	struct ws_tunnel_setup setup = {
		.loop = c->config.loop,
		.wire = take_ptr(&o->wire),
		.rest = buf_at(&o->in) + head,
		.n_rest = buf_len(&o->in) - head,
		.ended = on_ended,
		.arg = o,
	};
	int fd, rc = ws_tunnel_start(&setup, &o->carrier, &fd);

	if (rc < 0) {
		ws_accept_drop(o, strerror(-rc));
		return;
	}
	TAILQ_REMOVE(&c->strangers, o, link);
	preauth_leave(&o->place);
	c->n_strangers--;
	TAILQ_INSERT_TAIL(&c->open, o, link);
	c->n_open++;
	buf_fini(&o->in);
	buf_fini(&o->out);
	set_timer(c);
	c->config.fn(c->config.arg, fd, o->from);
}

/* The request's header section is complete. */
static void
ws_accept_answer(struct one *o, const struct ws_tunnel_request *request, size_t head)
{
	struct ws_accept *c = o->of;
	struct route route;
	ssize_t n;

	if (route_parse(&route, request->path) < 0 || route.kind != ROUTE_CARRIER) {
		ws_accept_refuse(o, 404, "no node's path for a carrier");
		return;
	}
	if (c->n_open >= c->config.most) {
		ws_accept_refuse(o, 503, "too many connections in websockets");
		return;
	}
	ws_tunnel_accept(&o->out, request);
	n = o->wire->ops->write(o->wire, buf_at(&o->out), buf_len(&o->out));
	if (n < 0 || (size_t)n < buf_len(&o->out)) /* not even the first bytes that we send */
		ws_accept_drop(o, "it does not take the answer");
	else
		ws_accept_join(o, head);
}

static void
on_wire(void *arg)
{
	struct one *o = arg;
	struct ws_tunnel_request request;
	ssize_t n = o->wire->ops->read(
		o->wire, buf_reserve(&o->in, WS_TUNNEL_HEAD_MAX), WS_TUNNEL_HEAD_MAX);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		ws_accept_drop(o, "it ended before its request was whole");
		return;
	}
	buf_commit(&o->in, (size_t)n);
	n = ws_tunnel_read_request(buf_at(&o->in), buf_len(&o->in), &request);
	if (n > 0)
		ws_accept_answer(o, &request, (size_t)n);
	else if (n < 0)
		ws_accept_refuse(o, request.status, request.why);
}

static void
listen_to(struct one *o, struct transport *wire)
{
	o->wire = wire;
	o->wire->arg = o;
	o->wire->on = on_wire;
}

static void
on_handshake(void *arg, struct tls_stream *tls, const char *why)
{
	struct one *o = arg;

	o->handshake = NULL;
	if (tls == NULL) {
		ws_accept_drop(o, why);
		return;
	}
	listen_to(o, transport_tls(&tls));
	on_wire(o);
}

/* --- taking --------------------------------------------------------------------------------- */

static void
tell_address(struct one *o, int fd, bool proxied)
{
	struct addr a = {.len = sizeof a.in6};
	char text[ADDR_TEXT_MAX] = "?";

	if (getpeername(fd, &a.sa, &a.len) == 0)
		addr_text(&a, text);
	snprintf(o->from, sizeof o->from, "%s%s", proxied ? WS_ACCEPT_VIA : "", text);
}

static void
ws_accept_on_dropped(void *arg)
{
	ws_accept_drop(arg, "its place was needed: too many others are on their way");
}

void
ws_accept_take(struct ws_accept *c, int fd, enum client_hello kind)
{
	static const char *const offers[] = {"http/1.1", NULL};
	const struct addr peer = preauth_from(fd, NULL);
	struct one *o = xcalloc(1, sizeof *o);

	o->place = (struct preauth_conn){.drop = ws_accept_on_dropped, .arg = o};
	if (!preauth_enter(c->config.preauth, &o->place, &peer, loop_now_ms(c->config.loop))) {
		free(o);
		close(fd);
		return;
	}
	o->of = c;
	o->since_ms = loop_now_ms(c->config.loop);
	buf_init(&o->in, BUF_UNLIMITED); /* a header section, plus what one read adds */
	buf_init(&o->out, BUF_UNLIMITED);
	tell_address(o, fd, kind != CLIENT_HELLO_CARRIER);
	TAILQ_INSERT_TAIL(&c->strangers, o, link);
	c->n_strangers++;
	if (!timer_active(c->timer))
		set_timer(c);
	if (kind == CLIENT_HELLO_PLAIN)
		listen_to(o, transport_socket(c->config.loop, fd));
	else
		o->handshake = tls_handshake_new(&(struct tls_handshake_setup){
			.loop = c->config.loop,
			.workers = c->config.workers,
			.fd = fd,
			.ctx = c->config.tls,
			.offers = offers,
			.proof = TLS_ANYBODY, /* the connection inside authenticates itself */
			.from = &peer,
			.place = &o->place,
			.done = on_handshake,
			.arg = o,
		});
}

/* --- life ----------------------------------------------------------------------------------- */

struct ws_accept *
ws_accept_new(const struct ws_accept_config *config)
{
	struct ws_accept *c = xcalloc(1, sizeof *c);

	c->config = *config;
	if (c->config.most == 0)
		c->config.most = WS_ACCEPT_MOST;
	TAILQ_INIT(&c->strangers);
	TAILQ_INIT(&c->open);
	c->timer = timer_new(config->loop, on_timer, c);
	return c;
}

void
ws_accept_free(struct ws_accept **out)
{
	struct ws_accept *c = take_ptr(out);

	if (c == NULL)
		return;
	while (!TAILQ_EMPTY(&c->strangers))
		one_free(TAILQ_FIRST(&c->strangers));
	while (!TAILQ_EMPTY(&c->open))
		one_free(TAILQ_FIRST(&c->open));
	timer_free(&c->timer);
	free(c);
}

void
ws_accept_renew(struct ws_accept *c, struct ssl_ctx_st *tls)
{
	c->config.tls = tls;
}

bool
ws_accept_hides(const char *from)
{
	return strncmp(from, WS_ACCEPT_VIA, strlen(WS_ACCEPT_VIA)) == 0;
}

/* --- state and metrics ---------------------------------------------------------------------- */

static struct ws_tunnel_stats
ws_accept_sum(const struct ws_accept *c)
{
	struct ws_tunnel_stats s = c->past;
	const struct one *o;

	TAILQ_FOREACH(o, &c->open, link) {
		s.bytes_in += ws_tunnel_stats(o->carrier)->bytes_in;
		s.bytes_out += ws_tunnel_stats(o->carrier)->bytes_out;
	}
	return s;
}

void
ws_accept_state(const struct ws_accept *c, struct buf *out)
{
	struct ws_tunnel_stats s = ws_accept_sum(c);

	buf_printf(out,
		"{\"open\":%zu,\"strangers\":%zu,\"bytes_in\":%llu,\"bytes_out\":%llu,\"broken\":%"
		"llu}",
		c->n_open, c->n_strangers, (unsigned long long)s.bytes_in,
		(unsigned long long)s.bytes_out, (unsigned long long)c->broken);
}
