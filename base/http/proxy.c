#include "base/http/proxy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/buf.h"
#include "base/http/http1.h"

enum {
	HEAD_MAX = 16 * 1024,
	WHY_MAX = 320,
};

struct proxy_dial {
	struct watch *watch;
	struct timer *timer;
	int fd;
	bool connected;
	size_t searched;
	struct buf out, in;
	uint64_t timeout_ms;
	char *target;
	char address[ADDR_TEXT_MAX];
	proxy_done_fn *done;
	void *arg;
};

static void
free_dial(struct proxy_dial *d)
{
	watch_stop(&d->watch);
	timer_free(&d->timer);
	cleanup_fd(&d->fd);
	if (buf_len(&d->out) > 0)
		memset(buf_at(&d->out), 0, buf_len(&d->out));
	buf_fini(&d->out);
	buf_fini(&d->in);
	free(d->target);
	free(d);
}

void
proxy_cancel(struct proxy_dial **out)
{
	struct proxy_dial *d = take_ptr(out);

	if (d != NULL)
		free_dial(d);
}

static void __attribute__((format(printf, 2, 3)))
proxy_fail(struct proxy_dial *d, const char *fmt, ...)
{
	proxy_done_fn *done = d->done;
	void *arg = d->arg;
	char why[WHY_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	free_dial(d);
	done(arg, -1, why);
}

static void
proxy_succeed(struct proxy_dial *d)
{
	proxy_done_fn *done = d->done;
	void *arg = d->arg;
	int fd;

	watch_stop(&d->watch);
	fd = take_fd(&d->fd);
	free_dial(d);
	done(arg, fd, NULL);
}

/* Not "status N": those words denote the hub's own answers. */
static void
fail_status(struct proxy_dial *d, unsigned status)
{
	if (status == 407 || status == 401) /* tinyproxy sends 401 for a wrong password */
		proxy_fail(d,
			"the proxy %s wants a user and a password, or other ones (it answers %u): "
			"set hub.proxy to http://USER:PASSWORD@HOST:PORT",
			d->address, status);
	else if (status == 403 || status == 405)
		proxy_fail(d,
			"the proxy %s does not allow CONNECT to %s (it answers %u): allow that "
			"port "
			"there",
			d->address, d->target, status);
	else
		proxy_fail(d, "the proxy %s cannot reach %s (it answers %u)", d->address, d->target,
			status);
}

/* Handles one complete head. False: the dial is over. */
static bool
take_head(struct proxy_dial *d, size_t len)
{
	struct http1_head *head = xcalloc(1, sizeof(*head));
	bool good = http1_parse_response(head, buf_at(&d->in), len, true) == 0;
	unsigned status = head->status;

	free(head);
	if (!good) {
		proxy_fail(d, "%s does not answer like an HTTP proxy", d->address);
		return false;
	}
	buf_consume(&d->in, len);
	d->searched = 0;
	if (status < 200) /* RFC 9110 section 15.2: the final response is still to come */
		return true;
	if (status >= 300)
		fail_status(d, status);
	else if (buf_len(&d->in) > 0) /* in TLS the client speaks first */
		proxy_fail(d, "the proxy %s sends something of its own into the connection",
			d->address);
	else
		proxy_succeed(d);
	return false;
}

static void
read_answer(struct proxy_dial *d)
{
	ssize_t n = buf_read(&d->in, d->fd, 4096), end;

	if (n == -EAGAIN)
		return;
	if (n == -ENOBUFS) {
		proxy_fail(d, "the proxy %s answers with more than %d bytes", d->address, HEAD_MAX);
		return;
	}
	if (n <= 0) {
		proxy_fail(d, "the proxy %s ended the connection: %s", d->address,
			n < 0 ? strerror((int)-n) : "no answer to CONNECT");
		return;
	}
	while (buf_len(&d->in) > 0) {
		end = http1_find_end(buf_at(&d->in), buf_len(&d->in), &d->searched);
		if (end < 0)
			proxy_fail(d, "%s does not answer like an HTTP proxy", d->address);
		if (end <= 0 || !take_head(d, (size_t)end))
			return;
	}
}

static void
write_request(struct proxy_dial *d)
{
	ssize_t n = buf_write(&d->out, d->fd);

	if (n < 0 && n != -EAGAIN) {
		proxy_fail(
			d, "the proxy %s ended the connection: %s", d->address, strerror((int)-n));
		return;
	}
	if (buf_len(&d->out) == 0)
		watch_set(d->watch, WATCH_READ);
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct proxy_dial *d = arg;
	int error;

	(void)events;
	if (!d->connected) {
		error = sock_error(fd);
		if (error != 0) {
			proxy_fail(d, "cannot connect to the proxy %s: %s", d->address,
				strerror(error));
			return;
		}
		d->connected = true;
	}
	if (buf_len(&d->out) > 0)
		write_request(d);
	else
		read_answer(d);
}

static void
on_timeout(void *arg)
{
	struct proxy_dial *d = arg;

	proxy_fail(d, "the proxy %s %s within %llu ms", d->address,
		d->connected ? "did not answer CONNECT" : "was not reached",
		(unsigned long long)d->timeout_ms);
}

int
proxy_dial(struct proxy_dial **out, struct loop *loop, const struct proxy_setup *setup,
	struct err *err)
{
	struct proxy_dial *d;
	char text[ADDR_TEXT_MAX];
	int fd, rc = sock_connect(&setup->addr, setup->mark, &fd);

	addr_text(&setup->addr, text);
	if (rc < 0)
		return err_set(err, rc, "cannot connect to the proxy %s: %s", text, strerror(-rc));
	d = xcalloc(1, sizeof(*d));
	d->fd = fd;
	d->done = setup->done;
	d->arg = setup->arg;
	d->timeout_ms = setup->timeout_ms;
	d->target = xstrdup(setup->target);
	memcpy(d->address, text, sizeof(text));
	buf_init(&d->out, BUF_UNLIMITED);
	buf_init(&d->in, HEAD_MAX);
	buf_printf(&d->out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", setup->target, setup->target);
	if (setup->proxy->authorization != NULL)
		buf_printf(&d->out, "Proxy-Authorization: %s\r\n", setup->proxy->authorization);
	buf_adds(&d->out, "\r\n");
	d->watch = watch_start(loop, fd, WATCH_WRITE, on_ready, d);
	d->timer = timer_new(loop, on_timeout, d);
	timer_start(d->timer, setup->timeout_ms, 0);
	*out = d;
	return 0;
}
