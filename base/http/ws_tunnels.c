/*
 * A dial passes through proxy_dial or connect, then tls_stream, then the upgrade on the transport,
 * and ends in base/http/ws_tunnel, which owns the transport from then on. An open tunnel lives
 * until its socket's owner or the peer closes it, or until ws_tunnels_free; `struct one` holds it.
 */
#include "base/http/ws_tunnels.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/core/figures.h"
#include "base/core/log.h"
#include "base/http/ws_tunnel.h"
#include "base/http/ws_tunnel_head.h"

struct one { /* an open tunnel */
	LIST_ENTRY(one) link;
	struct ws_tunnels *of;
	struct ws_tunnel *carrier;
	char address[ADDR_TEXT_MAX];
};

LIST_HEAD(ones, one);

struct ws_tunnels {
	struct ws_tunnels_config config;
	struct ones open;
	unsigned n_open;
	uint64_t opened, refused, failed, broken;
	char error[WS_TUNNEL_WHY_MAX + ADDR_TEXT_MAX]; /* why the last dial failed, "" none */
};

struct ws_tunnels_dial {
	struct ws_tunnels *of;
	struct timer *timer;
	struct watch *watch; /* while connecting */
	int fd; /* the same */
	struct proxy_dial *proxied;
	struct tls_stream *tls; /* during the TLS handshake */
	struct transport *wire; /* after the handshake */
	struct ssl_ctx_st *ctx;
	struct buf out, in;
	bool refused; /* with an HTTP status */
	char key[WSHAKE_KEY_TEXT];
	char *host, *target;
	char address[ADDR_TEXT_MAX];
	proxy_done_fn *done;
	void *arg;
};

/* --- end of dials and tunnels --------------------------------------------------------------- */

static void
dial_free(struct ws_tunnels_dial *d)
{
	watch_stop(&d->watch);
	timer_free(&d->timer);
	if (d->fd >= 0)
		close(d->fd);
	proxy_cancel(&d->proxied);
	tls_stream_free(&d->tls);
	if (d->wire != NULL)
		d->wire->ops->free(d->wire);
	pki_ctx_free(&d->ctx);
	buf_fini(&d->out);
	buf_fini(&d->in);
	free(d->host);
	free(d->target);
	free(d);
}

void
ws_tunnels_cancel(struct ws_tunnels_dial **out)
{
	struct ws_tunnels_dial *d = take_ptr(out);

	if (d != NULL)
		dial_free(d);
}

static void __attribute__((format(printf, 2, 3)))
ws_tunnels_fail(struct ws_tunnels_dial *d, const char *fmt, ...)
{
	struct ws_tunnels *c = d->of;
	proxy_done_fn *done = d->done;
	void *arg = d->arg;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->error, sizeof c->error, fmt, ap);
	va_end(ap);
	c->refused += d->refused;
	c->failed += !d->refused;
	dial_free(d);
	done(arg, -1, c->error);
}

static void
one_free(struct one *o)
{
	struct ws_tunnels *c = o->of;

	c->n_open--;
	LIST_REMOVE(o, link);
	ws_tunnel_free(&o->carrier);
	free(o);
}

static void
on_ended(void *arg, bool fault, const char *why)
{
	struct one *o = arg;

	if (fault) {
		o->of->broken++;
		log_limited(LOG_LEVEL_WARN, 12, "carrier",
			"a websocket that carried a connection has ended address=%s why=\"%s\"",
			o->address, why);
	}
	one_free(o);
}

/* --- dialling ------------------------------------------------------------------------------- */

static void
ws_tunnels_join(struct ws_tunnels_dial *d, size_t head)
{
	struct ws_tunnels *c = d->of;
	struct one *o = xcalloc(1, sizeof *o);
	struct ws_tunnel_setup setup = {
		.loop = c->config.loop,
		.wire = take_ptr(&d->wire),
		.client = true,
		.rest = buf_at(&d->in) + head,
		.n_rest = buf_len(&d->in) - head,
		.ended = on_ended,
		.arg = o,
	};
	proxy_done_fn *done = d->done;
	void *arg = d->arg;
	int fd, rc = ws_tunnel_start(&setup, &o->carrier, &fd);

	if (rc < 0) {
		free(o);
		ws_tunnels_fail(
			d, "a websocket cannot be joined with its connection: %s", strerror(-rc));
		return;
	}
	o->of = c;
	memcpy(o->address, d->address, sizeof o->address);
	LIST_INSERT_HEAD(&c->open, o, link);
	c->n_open++;
	c->opened++;
	c->error[0] = '\0';
	dial_free(d);
	done(arg, fd, NULL);
}

static void
read_answer(struct ws_tunnels_dial *d)
{
	struct ws_tunnel_answer answer;
	ssize_t n = d->wire->ops->read(
		d->wire, buf_reserve(&d->in, WS_TUNNEL_HEAD_MAX), WS_TUNNEL_HEAD_MAX);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		ws_tunnels_fail(d,
			"%s ended the connection without an answer to the websocket's request",
			d->address);
		return;
	}
	buf_commit(&d->in, (size_t)n);
	n = ws_tunnel_read_answer(buf_at(&d->in), buf_len(&d->in), d->key, &answer);
	if (n > 0) {
		ws_tunnels_join(d, (size_t)n);
	} else if (n < 0) {
		d->refused = answer.status != 0;
		ws_tunnels_fail(d, "%s: %s", d->address, answer.why);
	}
}

static void
on_wire(void *arg)
{
	struct ws_tunnels_dial *d = arg;
	ssize_t n;

	while (buf_len(&d->out) > 0) {
		n = d->wire->ops->write(d->wire, buf_at(&d->out), buf_len(&d->out));
		if (n == -EAGAIN)
			break;
		if (n <= 0) {
			ws_tunnels_fail(
				d, "%s ended the connection: %s", d->address, strerror((int)-n));
			return;
		}
		buf_consume(&d->out, (size_t)n);
	}
	d->wire->ops->want(d->wire, buf_len(&d->out) > 0);
	read_answer(d);
}

static void
on_tls(void *arg, enum tls_event event)
{
	struct ws_tunnels_dial *d = arg;

	if (event != TLS_OPEN) {
		ws_tunnels_fail(d,
			"%s (of the websocket; its certificate is checked with hub.carrierCA, else "
			"the system's CAs, and the hub's)",
			tls_stream_why(d->tls));
		return;
	}
	d->wire = transport_tls(&d->tls);
	d->wire->arg = d;
	d->wire->on = on_wire;
	ws_tunnel_ask(&d->out, d->target, d->of->config.path, d->key);
	on_wire(d);
}

static void
shake_hands(struct ws_tunnels_dial *d, int fd)
{
	static const char *const offers[] = {"http/1.1", CARRIER_ALPN, NULL};
	const struct tls_setup setup = {
		.loop = d->of->config.loop,
		.fd = fd,
		.ctx = d->ctx,
		.host = d->host,
		.offers = offers,
		.on = on_tls,
		.arg = d,
	};
	struct err err = {0};

	if (tls_stream_new(&setup, &d->tls, &err) < 0)
		ws_tunnels_fail(d, "%s", err.text);
}

static void
on_proxied(void *arg, int fd, const char *why)
{
	struct ws_tunnels_dial *d = arg;

	d->proxied = NULL;
	if (fd < 0) {
		ws_tunnels_fail(d, "%s", why);
		return;
	}
	timer_start(d->timer, WS_TUNNELS_DIAL_MS, 0);
	shake_hands(d, fd);
}

static void
on_connected(void *arg, int fd, unsigned events)
{
	struct ws_tunnels_dial *d = arg;
	int error = sock_error(fd);

	(void)events;
	if (error != 0) {
		ws_tunnels_fail(d, "cannot connect to %s: %s", d->address, strerror(error));
		return;
	}
	watch_stop(&d->watch);
	shake_hands(d, take_fd(&d->fd));
}

static void
on_late(void *arg)
{
	struct ws_tunnels_dial *d = arg;

	ws_tunnels_fail(d, "%s %s within %u ms", d->address,
		d->wire != NULL          ? "did not answer the websocket's request"
			: d->tls != NULL ? "did not end the TLS handshake"
					 : "was not reached",
		WS_TUNNELS_DIAL_MS);
}

/* Opens the outer connection: to the proxy, or to the server itself. */
static int
set_out(struct ws_tunnels_dial *d, const struct ws_tunnels_setup *setup, struct err *err)
{
	const struct ws_tunnels_config *config = &d->of->config;
	const struct proxy_setup proxy = {
		.proxy = setup->proxy,
		.addr = setup->addr,
		.target = setup->target,
		.mark = config->mark,
		.timeout_ms = WS_TUNNELS_DIAL_MS,
		.done = on_proxied,
		.arg = d,
	};
	int rc;

	if (setup->proxy != NULL)
		return proxy_dial(&d->proxied, config->loop, &proxy, err);
	rc = sock_connect(&setup->addr, config->mark, &d->fd);
	if (rc < 0)
		return err_set(err, rc, "cannot connect to %s: %s", d->address, strerror(-rc));
	d->watch = watch_start(config->loop, d->fd, WATCH_WRITE, on_connected, d);
	timer_start(d->timer, WS_TUNNELS_DIAL_MS, 0);
	return 0;
}

/* Omits wss's default port. */
static char *
host_field(const char *target)
{
	const char *port = strrchr(target, ':');

	if (port != NULL && strcmp(port, ":443") == 0)
		return xstrndup(target, (size_t)(port - target));
	return xstrdup(target);
}

int
ws_tunnels_dial(struct ws_tunnels *c, const struct ws_tunnels_setup *setup,
	struct ws_tunnels_dial **out, struct err *err)
{
	struct ws_tunnels_dial *d = xcalloc(1, sizeof *d);
	int rc;

	d->of = c;
	d->fd = -1;
	d->host = xstrdup(setup->host);
	d->target = host_field(setup->target);
	d->done = setup->done;
	d->arg = setup->arg;
	addr_text(&setup->addr, d->address);
	buf_init(&d->out, BUF_UNLIMITED);
	buf_init(&d->in, BUF_UNLIMITED); /* a head, and what one read brings */
	d->timer = timer_new(c->config.loop, on_late, d);
	rc = pki_carrier_ctx(setup->tls, c->config.ca_pem, &d->ctx, err);
	if (rc == 0)
		rc = set_out(d, setup, err);
	if (rc < 0)
		dial_free(d);
	else
		*out = d;
	return rc;
}

/* --- all tunnels ---------------------------------------------------------------------------- */

struct ws_tunnels *
ws_tunnels_new(const struct ws_tunnels_config *config)
{
	struct ws_tunnels *c = xcalloc(1, sizeof *c);

	c->config = *config;
	c->config.path = xstrdup(config->path);
	c->config.ca_pem = config->ca_pem != NULL ? xstrdup(config->ca_pem) : NULL;
	LIST_INIT(&c->open);
	return c;
}

void
ws_tunnels_free(struct ws_tunnels **out)
{
	struct ws_tunnels *c = take_ptr(out);

	if (c == NULL)
		return;
	while (!LIST_EMPTY(&c->open))
		one_free(LIST_FIRST(&c->open));
	free((void *)(uintptr_t)c->config.path);
	free((void *)(uintptr_t)c->config.ca_pem);
	free(c);
}

#define TUNNELS(member, metric, labels, help, json)                                                \
	FIGURE(struct ws_tunnels, member, metric, labels, help, json)

static const struct figure ws_tunnels_figures[] = {
	FIGURE_JSON(struct ws_tunnels, n_open, "open"),
	TUNNELS(opened, "edgeway_carrier_dials_total", "result=\"open\"",
		"Attempts to open a websocket that carries a connection, by what became of them.",
		"opened"),
	FIGURE_ALSO(struct ws_tunnels, refused, "result=\"refused\"", "refused"),
	FIGURE_ALSO(struct ws_tunnels, failed, "result=\"failed\"", "failed"),
	FIGURE_JSON(struct ws_tunnels, broken, "broken"),
};

void
ws_tunnels_metrics(const struct ws_tunnels *c, struct metrics *m)
{
	figures_metrics(FIGURES(ws_tunnels_figures), c, m);
}

void
ws_tunnels_state(const struct ws_tunnels *c, struct buf *out)
{
	char said[sizeof c->error];

	figures_json(FIGURES(ws_tunnels_figures), c, out);
	buf_printf(out, ",\"error\":\"%s\"", log_clean(said, sizeof said, c->error));
}
