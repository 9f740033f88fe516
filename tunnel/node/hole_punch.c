#include "tunnel/node/hole_punch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/sock.h"
#include "base/core/special_addr.h"
#include "base/core/state.h"
#include "base/tls/tls_stream.h"
#include "tunnel/node/rendezvous_line.h"

/* The pause after a refusal. It is random, since two that are refused by each other's NATs have to
 * be under way at the same time. */
enum { PAUSE_LEAST_MS = 10, PAUSE_MOST_MS = 200, ACCEPTS = 8 };

enum hole_punch_state {
	PUNCH_ASKING, /* the hub, from the local port */
	PUNCH_WAITING, /* for the moment to begin */
	PUNCH_CONNECTING,
	PUNCH_PAUSING, /* refused; the next connect is due in a moment */
};

static const char *const state_names[] = {
	[PUNCH_ASKING] = "asking",
	[PUNCH_WAITING] = "waiting",
	[PUNCH_CONNECTING] = "connecting",
	[PUNCH_PAUSING] = "pausing",
};
static const uint32_t state_next[] = {
	[PUNCH_ASKING] = STATE_TO(PUNCH_WAITING),
	[PUNCH_WAITING] = STATE_TO(PUNCH_CONNECTING),
	[PUNCH_CONNECTING] = STATE_TO(PUNCH_PAUSING),
	[PUNCH_PAUSING] = STATE_TO(PUNCH_CONNECTING),
};
static const struct state_machine states = {"hole-punch", "tunnel", state_names, state_next};

struct hole_punch {
	struct loop *loop;
	enum hole_punch_state state;
	uint32_t mark;
	struct tls_stream *hub; /* kept to the end, as the NAT's mapping is */
	struct timer *deadline, *next;
	struct watch *accepts, *watch;
	int listener, fd; /* -1: none */
	char say[300]; /* the line for the hub */
	size_t n;
	char in[RENDEZVOUS_LINE_MAX + 1];
	struct addr local, own, other; /* own: as the hub sees it */
	unsigned connects;
	int error; /* of the last connect */
	int failed; /* -errno of hole_punch_start */
	char why[256];
	hole_punch_fn *done;
	void *arg;
};

static void
hole_punch_go(struct hole_punch *p, enum hole_punch_state to)
{
	p->state = state_go(&states, p->state, to);
}

static void
hole_punch_fail(struct hole_punch *p, const char *why)
{
	p->done(p->arg, -1, &p->other, why);
}

/* --- the connection ------------------------------------------------------------------------- */

static void
hole_punch_drop(struct hole_punch *p)
{
	if (p->watch != NULL)
		watch_stop(&p->watch);
	sock_close(&p->fd, false);
}

static void
hole_punch_explain(struct hole_punch *p)
{
	char own[ADDR_TEXT_MAX], other[ADDR_TEXT_MAX];

	snprintf(p->why, sizeof p->why,
		"no connection across NAT in %u attempts: %s (port %u here is seen as %s, the "
		"other node as %s)",
		p->connects, p->error != 0 ? strerror(p->error) : "no answer", addr_port(&p->local),
		addr_text(&p->own, own), addr_text(&p->other, other));
	hole_punch_fail(p, p->why);
}

static void
hole_punch_pause(struct hole_punch *p, int error)
{
	uint32_t random;

	hole_punch_drop(p);
	p->error = error;
	hole_punch_go(p, PUNCH_PAUSING);
	if (p->connects >= HOLE_PUNCH_MOST)
		return; /* the other one may still get through, until the deadline */
	random_bytes(&random, sizeof random);
	timer_start(p->next, PAUSE_LEAST_MS + random % (PAUSE_MOST_MS - PAUSE_LEAST_MS), 0);
}

static void
on_punch_connected(void *arg, int fd, unsigned events)
{
	struct hole_punch *p = arg;
	int error = sock_error(fd);

	(void)events;
	if (error != 0) {
		hole_punch_pause(p, error);
		return;
	}
	watch_stop(&p->watch);
	p->done(p->arg, take_fd(&p->fd), &p->other, "");
}

static void
hole_punch_connect(struct hole_punch *p)
{
	int rc = sock_connect_from(&p->local, &p->other, p->mark, &p->fd);

	hole_punch_go(p, PUNCH_CONNECTING);
	p->connects++;
	if (rc < 0)
		hole_punch_pause(p, -rc);
	else
		p->watch = watch_start(p->loop, p->fd, WATCH_WRITE, on_punch_connected, p);
}

/* Where this node, or its NAT, lets the other one's SYN in between two of ours. Others who connect
 * to the port meanwhile are closed. */
static void
on_punch_accepts(void *arg, int listener, unsigned events)
{
	struct hole_punch *p = arg;
	struct in6_addr ip, expected;

	(void)events;
	for (int i = 0; i < ACCEPTS; i++) {
		struct addr from = {.len = sizeof from.in6};
		int fd = accept4(listener, &from.sa, &from.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno != EAGAIN &&
				sock_short_of(-errno)) /* it would be told in each turn */
				watch_stop(&p->accepts);
			return;
		}
		if (addr_ip(&from, &ip) && addr_ip(&p->other, &expected) &&
			ip_same(&ip, &expected)) {
			sock_nodelay(fd);
			p->done(p->arg, fd, &from, "");
			return;
		}
		close(fd);
	}
}

static void
on_punch_next(void *arg)
{
	struct hole_punch *p = arg;

	if (p->failed < 0) {
		hole_punch_fail(p, p->why);
		return;
	}
	if (p->state == PUNCH_WAITING) {
		timer_start(p->deadline, HOLE_PUNCH_OPEN_MS, 0);
		if (sock_listen(&p->local, SOCK_REUSEPORT, &p->listener, NULL) == 0)
			p->accepts =
				watch_start(p->loop, p->listener, WATCH_READ, on_punch_accepts, p);
	}
	hole_punch_connect(p);
}

static void
on_punch_late(void *arg)
{
	struct hole_punch *p = arg;

	if (p->state == PUNCH_ASKING)
		hole_punch_fail(p, "the hub does not answer");
	else
		hole_punch_explain(p);
}

/* --- the hub -------------------------------------------------------------------------------- */

static void
hole_punch_told(struct hole_punch *p, const struct rendezvous_line *line)
{
	enum special_addr class;
	struct in6_addr ip;

	if (line->word == RENDEZVOUS_NO) {
		snprintf(
			p->why, sizeof p->why, "the hub does not introduce it: %.220s", line->text);
		hole_punch_fail(p, p->why);
		return;
	}
	if (line->word != RENDEZVOUS_GO || !addr_ip(&line->other, &ip) ||
		(class = special_addr_class(&ip)) != SPECIAL_NONE ||
		line->other.sa.sa_family != p->local.sa.sa_family) {
		hole_punch_fail(p, "the hub names an address that no other node can have");
		return;
	}
	p->own = line->own;
	p->other = line->other;
	hole_punch_go(p, PUNCH_WAITING);
	tls_stream_hold(p->hub, true); /* its end says nothing any more */
	timer_cancel(p->deadline);
	timer_start(p->next, line->delay_ms, 0);
}

static void
hole_punch_read(struct hole_punch *p)
{
	struct rendezvous_line line;
	ssize_t n = 0;

	while (p->state == PUNCH_ASKING && p->n < sizeof p->in) {
		n = tls_stream_read(p->hub, p->in + p->n, sizeof p->in - p->n);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			hole_punch_fail(p, "the hub ended the rendezvous connection");
			return;
		}
		p->n += (size_t)n;
		n = rendezvous_line_read(p->in, p->n, &line);
		if (n != 0)
			break;
	}
	if (n <= 0)
		hole_punch_fail(p, "the hub says what is no line of the rendezvous");
	else
		hole_punch_told(p, &line);
}

static void
on_punch_hub(void *arg, enum tls_event event)
{
	struct hole_punch *p = arg;

	if (event == TLS_OPEN) {
		p->local = sock_local(tls_stream_fd(p->hub));
		if (tls_stream_write(p->hub, p->say, strlen(p->say)) < 0)
			hole_punch_fail(p, "the hub ended the rendezvous connection");
		else
			hole_punch_read(p);
	} else if (event == TLS_READABLE && p->state == PUNCH_ASKING) {
		hole_punch_read(p);
	} else if (event == TLS_READABLE) {
		tls_stream_free(&p->hub); /* held, and broken: the loop would tell it for ever */
	} else if (event == TLS_FAILED) {
		snprintf(p->why, sizeof p->why, "rendezvous at the hub: %.220s",
			tls_stream_why(p->hub));
		hole_punch_fail(p, p->why);
	}
}

/* 0, or -errno with p->why. */
static int
hole_punch_ask(struct hole_punch *p, const struct tunnel_client_hub *hub)
{
	const struct addr any6 = {.in6 = {.sin6_family = AF_INET6}, .len = sizeof any6.in6},
			  any = addr_ipv4(INADDR_ANY, 0);
	struct tls_setup setup = {.loop = p->loop,
		.ctx = hub->tls,
		.host = hub->host,
		.alpn = TUNNEL_ALPN_RENDEZVOUS,
		.deadline_ms = HOLE_PUNCH_OPEN_MS,
		.on = on_punch_hub,
		.arg = p};
	struct err err = {0};
	int rc = sock_connect_from(
		hub->addr.sa.sa_family == AF_INET6 ? &any6 : &any, &hub->addr, p->mark, &setup.fd);

	if (rc < 0)
		snprintf(err.text, sizeof err.text, "%s", strerror(-rc));
	else
		rc = tls_stream_new(&setup, &p->hub, &err);
	if (rc < 0)
		snprintf(p->why, sizeof p->why, "rendezvous at the hub: %.200s", err.text);
	return rc;
}

/* --- life ----------------------------------------------------------------------------------- */

void
hole_punch_start(struct hole_punch **out, const struct hole_punch_setup *setup)
{
	struct hole_punch *p = *out = xcalloc(1, sizeof *p);

	p->loop = setup->loop;
	p->mark = setup->mark;
	p->done = setup->done;
	p->arg = setup->arg;
	p->listener = p->fd = -1;
	p->deadline = timer_new(setup->loop, on_punch_late, p);
	p->next = timer_new(setup->loop, on_punch_next, p);
	snprintf(p->say, sizeof p->say, "%s %s\n", setup->node != NULL ? "meet" : "come",
		setup->node != NULL ? setup->node : setup->id);
	p->failed = hole_punch_ask(p, setup->hub);
	if (p->failed < 0)
		timer_start(p->next, 0, 0); /* told in another turn */
	else
		timer_start(p->deadline, HOLE_PUNCH_HUB_MS, 0);
}

void
hole_punch_free(struct hole_punch **out)
{
	struct hole_punch *p = take_ptr(out);

	if (p == NULL)
		return;
	hole_punch_drop(p);
	if (p->accepts != NULL)
		watch_stop(&p->accepts);
	sock_close(&p->listener, false);
	tls_stream_free(&p->hub);
	timer_free(&p->deadline);
	timer_free(&p->next);
	free(p);
}
