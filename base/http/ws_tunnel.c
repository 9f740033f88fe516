#include "base/http/ws_tunnel.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/buf.h"
#include "base/core/sock.h"
#include "base/http/wsframe.h"

enum {
	TURN_BYTES = 256 * 1024, /* per direction and turn, before others are served */
	PONGS_BYTES = 64 * 1024, /* queued pongs that the peer does not read */
	WHY_MAX = 200,
};

/* OPEN ─► CLOSING (sends a close frame, waits for the peer's) ─► over
 *      └─► PARTING (the peer has closed, or is refused: flushes both directions) ─► over */
enum ws_tunnel_state { OPEN, CLOSING, PARTING };

struct ws_tunnel {
	struct loop *loop;
	struct transport *wire;
	struct wsframe *frames;
	struct watch *watch; /* of fd */
	struct timer *kick; /* wakes us for work that no event announces */
	struct timer *life; /* pings; the closing timeout */
	int fd; /* our end of the pair */
	struct buf in, out; /* in: for fd; out: for the transport */
	enum ws_tunnel_state state;
	bool fault;
	bool held, wanted; /* last hold and want settings of the transport */
	unsigned asked; /* last events requested from the watch */
	bool deaf; /* no more input from the transport */
	bool shut; /* no more output to fd */
	uint64_t heard_ms;
	char why[WHY_MAX];
	struct ws_tunnel_stats stats;
	void (*ended)(void *arg, bool fault, const char *why);
	void *arg;
};

/* The first reason counts. */
static void
ws_tunnel_part(struct ws_tunnel *c, enum ws_tunnel_state state, bool fault, const char *why)
{
	if (c->state == OPEN) {
		timer_start(c->life, WS_TUNNEL_LINGER_MS, 0);
		c->fault = fault;
		snprintf(c->why, sizeof c->why, "%s", why);
	}
	c->state = MAX(c->state, state);
}

/* --- from the transport to the socket ------------------------------------------------------- */

static void
ws_tunnel_take(struct ws_tunnel *c, const void *bytes, size_t n)
{
	size_t before = buf_len(&c->in);
	int rc = wsframe_take(c->frames, bytes, n, &c->in);

	wsframe_emit(c->frames, &c->out); /* pongs, or the close frame of a refusal */
	c->stats.bytes_in += buf_len(&c->in) - before;
	if (c->shut)
		buf_consume(&c->in, buf_len(&c->in));
	if (rc == 0)
		return;
	ws_tunnel_part(c, PARTING, rc < 0, wsframe_words(wsframe_closed(c->frames)));
	c->deaf = true;
}

static void
wire_ended(struct ws_tunnel *c, const char *why)
{
	c->deaf = true;
	ws_tunnel_part(c, PARTING, true, why);
	buf_consume(&c->out, buf_len(&c->out));
	c->wire->ops->free(
		take_ptr(&c->wire)); /* a broken transport would report events without end */
}

static void
give_socket(struct ws_tunnel *c)
{
	ssize_t n = 0;

	if (buf_len(&c->in) > 0)
		n = buf_write(&c->in, c->fd);
	if (n < 0 && n != -EAGAIN) { /* its owner has closed it */
		c->shut = true;
		buf_consume(&c->in, buf_len(&c->in));
	}
	if (buf_len(&c->in) == 0)
		buf_release(&c->in);
}

/* True: there may be more. */
static bool
read_wire(struct ws_tunnel *c)
{
	uint8_t bytes[TRANSPORT_READ_BYTES];
	size_t total = 0;

	while (!c->deaf && buf_len(&c->in) < WS_TUNNEL_WAITING) {
		ssize_t n = c->wire->ops->read(c->wire, bytes, sizeof bytes);

		if (n == -EAGAIN)
			return false;
		if (n <= 0) {
			wire_ended(c, n == 0 ? "the connection ended" : strerror((int)-n));
			return false;
		}
		c->heard_ms = loop_now_ms(c->loop);
		ws_tunnel_take(c, bytes, (size_t)n);
		give_socket(c);
		total += (size_t)n;
		if (total >= TURN_BYTES)
			return true;
	}
	return false;
}

/* --- from the socket to the transport ------------------------------------------------------- */

static void
read_socket(struct ws_tunnel *c)
{
	uint8_t bytes[WSFRAME_PAYLOAD];
	size_t total = 0;

	while (c->state == OPEN && buf_len(&c->out) < WS_TUNNEL_WAITING && total < TURN_BYTES) {
		ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			wsframe_close(c->frames, WSFRAME_NORMAL);
			ws_tunnel_part(c, CLOSING, false, "closed on this side");
			return;
		}
		wsframe_put(c->frames, bytes, (size_t)n, &c->out);
		c->stats.bytes_out += (size_t)n;
		total += (size_t)n;
	}
}

static void
give_wire(struct ws_tunnel *c)
{
	if (c->wire == NULL)
		return;
	wsframe_emit(c->frames, &c->out);
	while (buf_len(&c->out) > 0) {
		ssize_t n = c->wire->ops->write(c->wire, buf_at(&c->out), buf_len(&c->out));

		if (n == -EAGAIN)
			break;
		if (n <= 0) {
			wire_ended(c, strerror((int)-n));
			break;
		}
		buf_consume(&c->out, (size_t)n);
	}
	if (buf_len(&c->out) == 0)
		buf_release(&c->out);
	if (c->state == OPEN && buf_len(&c->out) > WS_TUNNEL_WAITING + PONGS_BYTES)
		wire_ended(c, wsframe_words(WSFRAME_POLICY));
}

/* --- events --------------------------------------------------------------------------------- */

static bool
ws_tunnel_over(const struct ws_tunnel *c)
{
	if (c->state == OPEN || buf_len(&c->out) > 0)
		return false;
	return c->state == PARTING ? buf_len(&c->in) == 0 || c->shut : c->deaf;
}

static void
ws_tunnel_set_events(struct ws_tunnel *c)
{
	bool full = c->deaf || buf_len(&c->in) >= WS_TUNNEL_WAITING, wanted = buf_len(&c->out) > 0;
	unsigned events = 0;

	if (c->wire != NULL && full != c->held) {
		c->held = full;
		c->wire->ops->hold(c->wire, full);
		if (!full)
			/* it may hold buffered bytes without an event */
			timer_start(c->kick, 0, 0);
	}
	if (c->wire != NULL && wanted != c->wanted) {
		c->wanted = wanted;
		c->wire->ops->want(c->wire, wanted);
	}
	if (c->state == OPEN && buf_len(&c->out) < WS_TUNNEL_WAITING)
		events |= WATCH_READ;
	if (buf_len(&c->in) > 0)
		events |= WATCH_WRITE;
	if (events != c->asked)
		watch_set(c->watch, events);
	c->asked = events;
}

static void
ws_tunnel_turn(struct ws_tunnel *c)
{
	bool more;

	give_socket(c);
	more = read_wire(c);
	read_socket(c);
	give_wire(c);
	if (ws_tunnel_over(c)) {
		c->ended(c->arg, c->fault, c->why);
		return;
	}
	ws_tunnel_set_events(c);
	if (more)
		timer_start(c->kick, 0, 0);
}

static void
on_turn(void *arg)
{
	ws_tunnel_turn(arg);
}

static void
on_wire(void *arg)
{
	struct ws_tunnel *c = arg;

	/* No event was asked for, so the connection broke: the loop would tell it in each turn. */
	if (c->held && !c->wanted)
		wire_ended(c, "the connection broke");
	ws_tunnel_turn(c);
}

static void
on_socket(void *arg, int fd, unsigned events)
{
	(void)fd;
	(void)events;
	ws_tunnel_turn(arg);
}

static void
on_life(void *arg)
{
	struct ws_tunnel *c = arg;
	uint64_t silent = loop_now_ms(c->loop) - c->heard_ms;

	if (c->state != OPEN) {
		c->ended(c->arg, c->fault, c->why);
		return;
	}
	if (silent >= WS_TUNNEL_PING_MS) {
		wsframe_ping(c->frames);
		silent = 0;
	}
	timer_start(c->life, WS_TUNNEL_PING_MS - silent, 0);
	ws_tunnel_turn(c);
}

/* --- creation and end ----------------------------------------------------------------------- */

int
ws_tunnel_start(const struct ws_tunnel_setup *setup, struct ws_tunnel **out, int *fd)
{
	struct transport *wire = setup->wire;
	struct ws_tunnel *c;
	int fds[2], rc = sock_pair(fds);

	if (rc < 0) {
		wire->ops->free(wire);
		return rc;
	}
	c = xcalloc(1, sizeof *c);
	c->loop = setup->loop;
	c->wire = wire;
	c->ended = setup->ended;
	c->arg = setup->arg;
	c->fd = fds[0];
	c->frames = wsframe_new(setup->client);
	c->heard_ms = loop_now_ms(c->loop);
	buf_init(&c->in, BUF_UNLIMITED);
	buf_init(&c->out, BUF_UNLIMITED);
	c->kick = timer_new(c->loop, on_turn, c);
	c->life = timer_new(c->loop, on_life, c);
	if (setup->client)
		timer_start(c->life, WS_TUNNEL_PING_MS, 0);
	c->asked = WATCH_READ;
	c->watch = watch_start(c->loop, c->fd, WATCH_READ, on_socket, c);
	wire->arg = c;
	wire->on = on_wire;
	if (setup->n_rest > 0)
		ws_tunnel_take(c, setup->rest, setup->n_rest);
	timer_start(c->kick, 0, 0); /* for input that arrived before we watched */
	*out = c;
	*fd = fds[1];
	return 0;
}

void
ws_tunnel_free(struct ws_tunnel **out)
{
	struct ws_tunnel *c = take_ptr(out);

	if (c == NULL)
		return;
	if (c->wire != NULL)
		c->wire->ops->free(c->wire);
	watch_stop(&c->watch);
	timer_free(&c->kick);
	timer_free(&c->life);
	close(c->fd);
	wsframe_free(&c->frames);
	buf_fini(&c->in);
	buf_fini(&c->out);
	free(c);
}

const struct ws_tunnel_stats *
ws_tunnel_stats(const struct ws_tunnel *c)
{
	return &c->stats;
}
