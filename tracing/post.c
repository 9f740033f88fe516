#include "tracing/post.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/net/resolve.h"
#include "base/tls/transport.h"
#include "tracing/reply.h"

enum { NAME_MS = 1000, NAME_TRIES = 2 };

struct post {
	struct post_config config;
	struct resolve *resolve; /* made for the first lookup of a name */
	struct addr *upstreams;
	size_t n_upstreams;
	bool renewing; /* the resolver is being replaced: results of old lookups are ignored */
	struct timer *start, *deadline;
	/* The connection, kept for successive requests. */
	struct watch *dial;
	int fd; /* being connected; -1 */
	bool far;
	struct tls_stream *tls; /* in the handshake */
	struct transport *wire; /* established */
	/* The request. */
	const struct buf *next; /* from post_send, until the loop starts it */
	const struct buf *body; /* NULL: no request is in progress */
	unsigned attempt;
	/* the connection was used before, so the server may have closed it meanwhile */
	bool reused;
	struct buf out;
	struct reply reply;
};

static void post_dial(struct post *p);

/* --- ends ----------------------------------------------------------------------------------- */

static void
hang_up(struct post *p)
{
	struct transport *w = take_ptr(&p->wire);

	if (w != NULL)
		w->ops->free(w);
	if (p->dial != NULL)
		watch_stop(&p->dial);
	tls_stream_free(&p->tls);
	cleanup_fd(&p->fd);
	p->fd = -1;
}

static void
post_finish(struct post *p, const struct post_result *result)
{
	timer_cancel(p->deadline);
	p->body = NULL;
	p->config.done(p->config.arg, result);
}

static struct post_result
result_of(struct post *p)
{
	return (struct post_result){.status = p->reply.status,
		.retry_after_s = p->reply.retry_after_s,
		.body = buf_str(&p->reply.body),
		.len = buf_len(&p->reply.body)};
}

/* If the response's head has arrived, it decides: sent again, the spans would be there twice. */
static void
post_fail(struct post *p, const char *why)
{
	bool judged = p->wire != NULL && p->reply.status != 0;
	struct post_result result;
	char text[256];

	snprintf(text, sizeof text, "%s", why);
	result = judged ? result_of(p) : (struct post_result){.why = text};
	hang_up(p);
	post_finish(p, &result);
}

/* The server may close an idle connection just when we use it. */
static void
post_lost(struct post *p, const char *why)
{
	if (!p->reused || buf_len(&p->reply.in) > 0 || p->reply.status != 0) {
		post_fail(p, why);
		return;
	}
	hang_up(p);
	post_dial(p);
}

static void
post_answered(struct post *p)
{
	const struct post_result result = result_of(p);

	if (!p->reply.keep_alive || buf_len(&p->out) > 0)
		hang_up(p);
	post_finish(p, &result);
}

/* --- bytes ---------------------------------------------------------------------------------- */

static void
read_wire(struct post *p)
{
	enum reply_got got = REPLY_MORE;

	while (got == REPLY_MORE) {
		char *to = buf_reserve(&p->reply.in, TRANSPORT_READ_BYTES);
		ssize_t n = to != NULL ? p->wire->ops->read(p->wire, to, TRANSPORT_READ_BYTES)
				       : -EMSGSIZE;

		if (n == -EAGAIN)
			return;
		if (n == 0 && reply_end(&p->reply)) {
			post_answered(p);
			return;
		}
		if (n <= 0) {
			post_lost(p,
				n == 0 ? "the collector hung up without an answer"
				       : strerror((int)-n));
			return;
		}
		buf_commit(&p->reply.in, (size_t)n);
		got = reply_take(&p->reply);
	}
	if (got == REPLY_BAD)
		post_fail(p, p->reply.why);
	else
		post_answered(p);
}

static void
on_wire(void *arg)
{
	struct post *p = arg;
	ssize_t n = 0;
	char byte;

	if (p->body == NULL) { /* idle; TLS may have records of its own to process */
		if (p->wire->ops->read(p->wire, &byte, sizeof byte) != -EAGAIN)
			hang_up(p);
		return;
	}
	while (buf_len(&p->out) > 0 &&
		(n = p->wire->ops->write(p->wire, buf_at(&p->out), buf_len(&p->out))) > 0)
		buf_consume(&p->out, (size_t)n);
	/* After a failed write a response may still be there, and give the reason. */
	p->wire->ops->want(p->wire, buf_len(&p->out) > 0 && n == -EAGAIN);
	read_wire(p);
}

static void
post_speak(struct post *p)
{
	const struct collector *to = p->config.to;

	reply_fini(&p->reply);
	reply_init(&p->reply);
	buf_fini(&p->out);
	buf_init(&p->out, BUF_UNLIMITED);
	buf_printf(&p->out,
		"POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: edgeway-agent/" EDGEWAY_VERSION
		"\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
		"Content-Length: %zu\r\n%s\r\n",
		to->path, to->authority, buf_len(p->body), to->fields);
	buf_add(&p->out, buf_at(p->body), buf_len(p->body));
	p->wire->on = on_wire;
	p->wire->arg = p;
	on_wire(p);
}

/* --- the connection ------------------------------------------------------------------------- */

static void
on_tls(void *arg, enum tls_event event)
{
	struct post *p = arg;

	if (event == TLS_FAILED) {
		post_fail(p, tls_stream_why(p->tls));
		return;
	}
	if (event != TLS_OPEN)
		return;
	p->wire = transport_tls(&p->tls);
	post_speak(p);
}

static void
post_connected(struct post *p)
{
	static const char *const alpn[] = {"http/1.1", NULL};
	struct err err = {0};
	int fd = take_fd(&p->fd);

	watch_stop(&p->dial);
	if (!p->config.to->tls) {
		p->wire = transport_socket(p->config.loop, fd);
		post_speak(p);
	} else if (tls_stream_new(&(struct tls_setup){.loop = p->config.loop,
					  .fd = fd,
					  .ctx = p->config.tls,
					  .host = p->config.to->host,
					  .offers = alpn,
					  .deadline_ms = POST_MS,
					  .on = on_tls,
					  .arg = p},
			   &p->tls, &err) < 0) {
		post_fail(p, err.text);
	}
}

static void
on_dial(void *arg, int fd, unsigned events)
{
	struct post *p = arg;
	int error = sock_error(fd);
	char byte;

	(void)events;
	if (error == 0 && p->far) {
		ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			return;
		error = n == 1 ? 0 : ECONNREFUSED;
	}
	if (error != 0)
		post_fail(p, strerror(error));
	else
		post_connected(p);
}

static void
watch_dial(struct post *p)
{
	p->dial = watch_start(p->config.loop, p->fd, p->far ? WATCH_READ : WATCH_WRITE, on_dial, p);
}

static void
on_host(void *arg, int status, const struct addr *addrs, size_t n)
{
	struct post *p = arg;
	int rc;

	if (p->body == NULL || p->renewing || p->dial != NULL || p->tls != NULL || p->wire != NULL)
		return; /* the deadline was first */
	if (status < 0 || n == 0) {
		post_fail(p,
			status == -ENOENT ? "its name is not known"
					  : "its name cannot be looked up");
		return;
	}
	p->far = false;
	rc = sock_connect(&addrs[p->attempt % n], p->config.mark, &p->fd);
	if (rc < 0)
		post_fail(p, strerror(-rc));
	else
		watch_dial(p);
}

static void
look_up(struct post *p)
{
	const struct resolve_config config = {.servers = p->upstreams,
		.n_servers = p->n_upstreams,
		.timeout_ms = NAME_MS,
		.tries = NAME_TRIES,
		.mark = p->config.mark};
	struct err err = {0};

	if (p->resolve == NULL && resolve_new(&p->resolve, p->config.loop, &config, &err) < 0)
		post_fail(p, err.text);
	else
		resolve_host(p->resolve, p->config.to->host, p->config.to->port, on_host, p);
}

static void
post_dial(struct post *p)
{
	struct tracing_way way = {
		.host = p->config.to->host, .port = p->config.to->port, .attempt = p->attempt};
	struct err err = {0};
	int rc = p->config.find != NULL ? p->config.find(p->config.find_arg, &way, &err) : 0;

	p->reused = false;
	if (rc < 0) {
		post_fail(p, err.text);
	} else if (rc == 0) {
		look_up(p);
	} else {
		p->fd = way.fd;
		p->far = way.far;
		watch_dial(p);
	}
}

static void
on_deadline(void *arg)
{
	struct post *p = arg;

	post_fail(p, p->wire != NULL ? "no answer within 10 s" : "no connection within 10 s");
}

/* --- public interface ----------------------------------------------------------------------- */

/* Started from the loop: post_send's caller is not called back from within its call. */
static void
on_start(void *arg)
{
	struct post *p = arg;

	p->body = take_ptr(&p->next);
	timer_start(p->deadline, POST_MS, 0);
	p->reused = p->wire != NULL;
	if (p->reused)
		post_speak(p);
	else
		post_dial(p);
}

void
post_send(struct post *p, const struct buf *body, unsigned attempt)
{
	p->next = body;
	p->attempt = attempt;
	timer_start(p->start, 0, 0);
}

void
post_new(struct post **out, const struct post_config *config)
{
	struct post *p = xcalloc(1, sizeof *p);

	p->config = *config;
	p->fd = -1;
	p->deadline = timer_new(config->loop, on_deadline, p);
	p->start = timer_new(config->loop, on_start, p);
	*out = p;
}

void
post_free(struct post **out)
{
	struct post *p = take_ptr(out);

	if (p == NULL)
		return;
	p->body = NULL;
	resolve_free(&p->resolve);
	hang_up(p);
	timer_free(&p->deadline);
	timer_free(&p->start);
	buf_fini(&p->out);
	reply_fini(&p->reply);
	pki_ctx_free(&p->config.tls);
	free(p->upstreams);
	free(p);
}

void
post_use_upstreams(struct post *p, const struct addr *upstreams, size_t n)
{
	bool waits = p->body != NULL && p->wire == NULL && p->dial == NULL && p->tls == NULL;

	free(p->upstreams);
	p->upstreams = n > 0 ? xmemdup(upstreams, n * sizeof *upstreams) : NULL;
	p->n_upstreams = n;
	if (p->resolve == NULL)
		return;
	p->renewing = true; /* the resolver's callbacks for the old servers are ignored */
	resolve_free(&p->resolve);
	p->renewing = false;
	if (waits)
		look_up(p);
}
