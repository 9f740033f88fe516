#include "tunnel/h2/relay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The other end is `other`, or the socket. */
struct relay {
	struct loop *loop;
	struct stream *stream, *other;
	struct watch *watch;
	/* for the dial deadline; later for resuming after a rate limit, or for reporting the end;
	 * NULL: none is needed, as while it only carries */
	struct timer *timer;
	struct rate *rates[RELAY_RATES];
	bool waits; /* for a rate limit */
	int fd;
	unsigned interest;
	unsigned lost; /* relay_setup */
	bool dialling, over;
	bool told_stream; /* that the other end has half-closed */
	bool told_other; /* that the stream has */
	relay_ended_fn *ended;
	void *arg;
	struct relay_report report;
};

static void on_watch(void *arg, int fd, unsigned events);
static void on_timer(void *arg);

static void
relay_wait(struct relay *r, uint64_t ms)
{
	if (r->timer == NULL)
		r->timer = timer_new(r->loop, on_timer, r);
	timer_start(r->timer, ms, 0);
}

static void
set_interest(struct relay *r, unsigned interest)
{
	if (r->watch == NULL)
		r->watch = watch_start(r->loop, r->fd, interest, on_watch, r);
	else if (interest != r->interest)
		watch_set(r->watch, interest);
	r->interest = interest;
}

/* Ends both ends, without an event. */
static void
relay_close(struct relay *r, unsigned code)
{
	watch_stop(&r->watch);
	sock_close(&r->fd, code != STREAM_DONE);
	stream_close(&r->stream, code);
	stream_close(&r->other, code);
}

/* The owner is told at the next turn. */
static void
relay_finish(struct relay *r, unsigned code, const char *why)
{
	r->over = true;
	r->report.why = why;
	r->report.whole = code == STREAM_DONE;
	relay_close(r, code);
	relay_wait(r, 0);
}

static void
finish_if_done(struct relay *r)
{
	if (!r->over && r->told_stream && r->told_other)
		relay_finish(r, STREAM_DONE, "done");
}

static bool
relay_broken(int error)
{
	return error != EAGAIN && error != EINTR;
}

/* How many bytes may pass now; if 0, the timer resumes later. */
static size_t
relay_allowed(struct relay *r)
{
	uint64_t now = loop_now_ms(r->loop);
	size_t n = SIZE_MAX;

	for (unsigned i = 0; i < RELAY_RATES; i++)
		if (r->rates[i] != NULL)
			n = MIN(n, rate_room(r->rates[i], now));
	if (n == 0 && !r->waits) {
		r->waits = true;
		relay_wait(r, RATE_WAIT_MS);
	}
	return n;
}

static void
relay_spend(struct relay *r, size_t n)
{
	for (unsigned i = 0; i < RELAY_RATES; i++)
		if (r->rates[i] != NULL)
			rate_spend(r->rates[i], n);
}

/* Socket to stream, as much as the stream takes. */
static void
fill_stream(struct relay *r)
{
	struct iovec v[CHAIN_MOST];
	struct msghdr to = {.msg_iov = v};
	size_t most;
	ssize_t n;
	int places;

	if (r->told_stream || (most = relay_allowed(r)) == 0 ||
		(places = stream_reserve(r->stream, most, v)) == 0)
		return;
	to.msg_iovlen = (size_t)places;
	n = recvmsg(r->fd, &to, 0);
	stream_commit(r->stream, n > 0 ? (size_t)n : 0);
	if (n > 0) {
		relay_spend(r, (size_t)n);
		r->report.to_stream += (uint64_t)n;
	} else if (n == 0) {
		r->told_stream = true;
		stream_end(r->stream);
	} else if (relay_broken(errno)) {
		relay_finish(r, STREAM_BROKEN, "the socket was reset");
	}
}

/* Shortens the pieces to n bytes in total; returns how many are used. */
static size_t
relay_cut_pieces(struct iovec *v, int pieces, size_t n)
{
	size_t total = 0;
	int i;

	for (i = 0; i < pieces && total < n; i++) {
		v[i].iov_len = MIN(v[i].iov_len, n - total);
		total += v[i].iov_len;
	}
	return (size_t)i;
}

/* As sendmsg: bytes taken, or -1 with errno. */
static ssize_t
relay_put(struct relay *r, struct stream *to, const struct msghdr *pieces)
{
	size_t n = 0, room;

	if (to == NULL)
		return sendmsg(r->fd, pieces, MSG_NOSIGNAL);
	for (size_t i = 0; i < pieces->msg_iovlen && (room = stream_room(to)) > 0; i++) {
		room = MIN(room, pieces->msg_iov[i].iov_len);
		stream_write(to, pieces->msg_iov[i].iov_base, room);
		n += room;
		if (room < pieces->msg_iov[i].iov_len)
			break;
	}
	errno = EAGAIN;
	return n > 0 ? (ssize_t)n : -1;
}

/* From a stream to another, or to the socket (`to` is NULL), as much as it takes in this turn; true
 * when the socket is to say that it takes more. */
static bool
relay_drain(struct relay *r, struct stream *from, struct stream *to)
{
	bool back = from == r->other, *ended = back ? &r->told_stream : &r->told_other;
	uint64_t *bytes = back ? &r->report.to_stream : &r->report.to_other;
	struct iovec v[CHAIN_MOST];
	struct msghdr msg = {.msg_iov = v};
	const uint64_t before = *bytes;
	int pieces;

	while ((pieces = stream_peek_all(from, v)) > 0 &&
		(msg.msg_iovlen = relay_cut_pieces(v, pieces, relay_allowed(r))) > 0) {
		ssize_t sent = relay_put(r, to, &msg);

		if (sent < 0 && errno == EAGAIN)
			return true;
		if (sent < 0 && errno != EINTR) {
			relay_finish(r, STREAM_BROKEN, "the socket was reset");
			return false;
		}
		if (sent > 0) {
			relay_spend(r, (size_t)sent);
			stream_consume(from, (size_t)sent);
			*bytes += (uint64_t)sent;
		}
		if (*bytes - before >= SESSION_TURN) {
			if (to != NULL)
				relay_wait(r, 0);
			return true;
		}
	}
	if (stream_spoilt(from)) {
		relay_finish(r, STREAM_BROKEN, "what came cannot be expanded");
	} else if (stream_eof(from) && !*ended) {
		*ended = true;
		if (to != NULL)
			stream_end(to);
		else
			shutdown(r->fd, SHUT_WR);
	}
	return false;
}

/* Moves what can be moved, and waits for what is missing. */
static void
relay_pass(struct relay *r, bool read_socket)
{
	unsigned interest = 0;

	if (relay_drain(r, r->stream, r->other))
		interest |= WATCH_WRITE;
	if (!r->over && r->other != NULL)
		(void)relay_drain(r, r->other, r->stream);
	else if (!r->over && read_socket)
		fill_stream(r);
	finish_if_done(r);
	if (r->over || r->other != NULL)
		return;
	if (!r->told_stream && !r->waits && stream_room(r->stream) > 0)
		interest |= WATCH_READ;
	set_interest(r, interest != 0 ? interest : WATCH_HUP);
}

static void
on_readable(void *arg)
{
	struct relay *r = arg;

	if (!r->dialling && !r->over)
		relay_pass(r, false);
}

static void
on_writable(void *arg)
{
	struct relay *r = arg;

	if (!r->dialling && !r->over)
		relay_pass(r, true);
}

static void
on_reset(void *arg, unsigned code)
{
	struct relay *r = arg;

	if (!r->over)
		relay_finish(r,
			code == STREAM_CANCELLED      ? STREAM_CANCELLED
				: code == STREAM_LOST ? r->lost
						      : STREAM_BROKEN,
			code == STREAM_LOST ? "the session has ended" : "the stream was reset");
}

static const struct stream_events stream_events = {
	.readable = on_readable,
	.writable = on_writable,
	.reset = on_reset,
};

/* The dial has failed; error 0: it timed out. */
static void
relay_refuse(struct relay *r, int error)
{
	bool late = error == 0 || error == ETIMEDOUT;

	r->report.status = late ? 504 : 502;
	stream_answer(r->stream, r->report.status,
		late ? "the target did not answer in time" : strerror(error));
	relay_finish(r, STREAM_CANCELLED, late ? "the dial took too long" : "the dial failed");
}

static void
on_connected(struct relay *r)
{
	int error = sock_error(r->fd);

	if (error != 0) {
		relay_refuse(r, error);
		return;
	}
	timer_free(&r->timer);
	r->dialling = false;
	r->report.status = 200;
	stream_answer(r->stream, 200, "");
	relay_pass(r, false);
}

static void
on_watch(void *arg, int fd, unsigned events)
{
	struct relay *r = arg;
	int error;

	(void)fd;
	if (r->dialling) {
		on_connected(r);
		return;
	}
	error = events & WATCH_HUP ? sock_error(r->fd) : 0;
	if (error != 0)
		relay_finish(r, STREAM_BROKEN, "the socket was reset");
	else
		relay_pass(r, (events & (WATCH_READ | WATCH_HUP)) != 0);
}

static void
on_timer(void *arg)
{
	struct relay *r = arg;

	if (r->over) {
		r->ended(r->arg, &r->report);
	} else if (!r->dialling) {
		r->waits = false;
		relay_pass(r, true);
	} else {
		relay_refuse(r, 0);
	}
}

static struct relay *
relay_make(const struct relay_setup *setup)
{
	struct relay *r = xcalloc(1, sizeof *r);

	r->loop = setup->loop;
	r->stream = setup->stream;
	r->ended = setup->ended;
	r->arg = setup->arg;
	r->lost = setup->lost != 0 ? setup->lost : STREAM_BROKEN;
	memcpy(r->rates, setup->rates, sizeof r->rates);
	r->fd = -1;
	stream_use(r->stream, &stream_events, r);
	return r;
}

struct relay *
relay_dial(const struct relay_setup *setup, const struct addr *to, unsigned timeout_ms)
{
	struct relay *r = relay_make(setup);
	int rc = sock_connect_hops(to, setup->mark, setup->hops, false, &r->fd);

	if (rc < 0) {
		relay_refuse(r, -rc);
		return r;
	}
	r->dialling = true;
	relay_wait(r, timeout_ms != 0 ? timeout_ms : RELAY_DIAL_MS);
	set_interest(r, WATCH_WRITE);
	return r;
}

struct relay *
relay_join(const struct relay_setup *setup, int fd)
{
	struct relay *r = relay_make(setup);

	r->fd = fd;
	r->report.status = 200;
	if (fd >= 0)
		sock_nodelay(fd);
	relay_pass(r, false);
	return r;
}

/* Whoever holds the first stream may keep it idle, for later requests. */
static void
on_fading(void *arg)
{
	const struct relay *r = arg;

	stream_fade(r->stream, stream_is_doubted(r->other));
}

struct relay *
relay_join_stream(const struct relay_setup *setup, struct stream *other)
{
	struct relay *r = relay_make(setup);

	r->other = other;
	r->report.status = 200;
	stream_use(other, &stream_events, r);
	stream_on_fading(other, on_fading, r);
	relay_pass(r, false);
	return r;
}

void
relay_break(struct relay *r, const char *why)
{
	if (!r->over)
		relay_finish(r, STREAM_BROKEN, why);
}

bool
relay_local(const struct relay *r, struct addr *to)
{
	memset(to, 0, sizeof *to);
	to->len = sizeof to->un;
	return r->fd >= 0 && getsockname(r->fd, &to->sa, &to->len) == 0;
}

struct stream *
relay_stream(const struct relay *r)
{
	return r->stream;
}

void
relay_free(struct relay **relay)
{
	struct relay *r = take_ptr(relay);

	if (r == NULL)
		return;
	relay_close(r, STREAM_CANCELLED);
	timer_free(&r->timer);
	free(r);
}
