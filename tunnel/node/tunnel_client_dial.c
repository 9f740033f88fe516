#include "tunnel/node/tunnel_client_dial.h"

#include <string.h>
#include <unistd.h>

struct tunnel_client_dial {
	struct tunnel_client_dial_setup setup;
	struct watch *watch; /* while it connects */
	struct timer *deadline; /* for connecting */
	struct proxy_dial *proxied; /* connecting through a proxy */
	struct ws_tunnels_dial *carried; /* connecting inside a websocket */
	struct tls_stream *tls; /* during the TLS handshake */
	int fd; /* while it connects; else -1 */
};

static void
tunnel_client_dial_fail(struct tunnel_client_dial *d, bool unanswered, const char *why)
{
	d->setup.done(d->setup.arg, NULL, unanswered, why);
}

static void
on_tls(void *arg, enum tls_event event)
{
	struct tunnel_client_dial *d = arg;

	if (event == TLS_OPEN)
		d->setup.done(d->setup.arg, take_ptr(&d->tls), false, "");
	else
		tunnel_client_dial_fail(d, false, tls_stream_why(d->tls));
}

static void
shake_hands(struct tunnel_client_dial *d, int fd)
{
	struct tls_setup setup = {
		.loop = d->setup.loop,
		.fd = fd,
		.ctx = d->setup.hub->tls,
		.host = d->setup.hub->host,
		.alpn = d->setup.alpn,
		.proof = d->setup.proof,
		.deadline_ms = d->setup.timeout_ms,
		.on = on_tls,
		.arg = d,
	};
	struct err err = {0};

	if (tls_stream_new(&setup, &d->tls, &err) < 0)
		tunnel_client_dial_fail(d, false, err.text);
}

static void
on_connected(void *arg, int fd, unsigned events)
{
	struct tunnel_client_dial *d = arg;
	int error = sock_error(fd);

	(void)events;
	if (error != 0) {
		tunnel_client_dial_fail(d, true, strerror(error));
		return;
	}
	watch_stop(&d->watch);
	timer_cancel(d->deadline);
	shake_hands(d, take_fd(&d->fd));
}

static void
on_reached(void *arg, int fd, const char *why)
{
	struct tunnel_client_dial *d = arg;

	d->proxied = NULL;
	d->carried = NULL;
	if (fd < 0)
		tunnel_client_dial_fail(d, false, why);
	else
		shake_hands(d, fd);
}

static void
on_late(void *arg)
{
	const struct tunnel_client_dial *d = arg;

	tunnel_client_dial_fail(arg, true,
		d->setup.proof == TLS_NODE ? "it does not answer" : "the hub does not answer");
}

static void
dial_proxy(struct tunnel_client_dial *d)
{
	const struct tunnel_client_hub *hub = d->setup.hub;
	struct proxy_setup setup = {
		.proxy = hub->proxy,
		.addr = hub->addr,
		.target = hub->target,
		.mark = d->setup.mark,
		.timeout_ms = TUNNEL_CLIENT_PROXY_MS,
		.done = on_reached,
		.arg = d,
	};
	struct err err = {0};

	if (proxy_dial(&d->proxied, d->setup.loop, &setup, &err) < 0)
		tunnel_client_dial_fail(d, false, err.text);
}

static void
dial_carried(struct tunnel_client_dial *d)
{
	const struct tunnel_client_hub *hub = d->setup.hub;
	const struct ws_tunnels_setup setup = {
		.addr = hub->addr,
		.proxy = hub->proxy,
		.host = hub->host,
		.target = hub->target,
		.tls = hub->tls,
		.done = on_reached,
		.arg = d,
	};
	struct err err = {0};

	if (ws_tunnels_dial(d->setup.carriers, &setup, &d->carried, &err) < 0)
		tunnel_client_dial_fail(d, false, err.text);
}

static void
dial_straight(struct tunnel_client_dial *d)
{
	int rc = d->setup.multipath
		? sock_connect_multipath(&d->setup.hub->addr, d->setup.mark, &d->fd)
		: sock_connect(&d->setup.hub->addr, d->setup.mark, &d->fd);

	if (rc < 0) {
		tunnel_client_dial_fail(d, true, strerror(-rc));
		return;
	}
	timer_start(d->deadline,
		d->setup.timeout_ms != 0 ? d->setup.timeout_ms : TUNNEL_CLIENT_CONNECT_MS, 0);
	d->watch = watch_start(d->setup.loop, d->fd, WATCH_WRITE, on_connected, d);
}

static struct tunnel_client_dial *
tunnel_client_dial_new(const struct tunnel_client_dial_setup *setup)
{
	struct tunnel_client_dial *d = xcalloc(1, sizeof *d);

	d->setup = *setup;
	d->fd = -1;
	d->deadline = timer_new(setup->loop, on_late, d);
	return d;
}

void
tunnel_client_dial_over(
	struct tunnel_client_dial **out, const struct tunnel_client_dial_setup *setup, int fd)
{
	*out = tunnel_client_dial_new(setup);
	shake_hands(*out, fd);
}

void
tunnel_client_dial_start(
	struct tunnel_client_dial **out, const struct tunnel_client_dial_setup *setup)
{
	struct tunnel_client_dial *d = *out = tunnel_client_dial_new(setup);

	if (setup->carriers != NULL)
		dial_carried(d);
	else if (setup->hub->proxy != NULL)
		dial_proxy(d);
	else
		dial_straight(d);
}

void
tunnel_client_dial_free(struct tunnel_client_dial **out)
{
	struct tunnel_client_dial *d = take_ptr(out);

	if (d == NULL)
		return;
	if (d->watch != NULL)
		watch_stop(&d->watch);
	timer_free(&d->deadline);
	proxy_cancel(&d->proxied);
	ws_tunnels_cancel(&d->carried);
	if (d->fd >= 0)
		close(d->fd);
	tls_stream_free(&d->tls);
	free(d);
}

bool
tunnel_client_dial_busy(const struct tunnel_client_dial *d)
{
	return d->tls != NULL && tls_stream_busy(d->tls);
}

bool
tunnel_client_dial_shakes(const struct tunnel_client_dial *d)
{
	return d->tls != NULL;
}
