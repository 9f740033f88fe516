#include "tunnel/udp/udp_relay.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct udp_relay {
	struct loop *loop;
	struct stream *stream;
	struct watch *watch;
	struct timer *timer; /* for trying, for draining, or for reporting the end */
	int fd;
	uint32_t mark;
	unsigned hops;
	struct addr *to;
	size_t n_to, at;
	bool trying; /* another address may still be the right one */
	bool draining, over;
	struct dgram_kept kept; /* while trying */
	struct dgram_reader reader;
	uint64_t moved_ms;
	struct dgram_tally tally;
	unsigned status;
	const char *why;
	udp_relay_ended_fn *ended;
	void *arg;
};

static void on_ready(void *arg, int fd, unsigned events);

/* --- end of a flow -------------------------------------------------------------------------- */

static void
udp_relay_settle(struct udp_relay *r)
{
	r->trying = false;
	dgram_kept_fini(&r->kept);
}

static void
close_socket(struct udp_relay *r)
{
	watch_stop(&r->watch);
	if (r->fd < 0)
		return;
	r->tally.dropped[DROP_SOCKET] += dgram_lost(r->fd);
	close(take_fd(&r->fd));
}

/* The owner is told at the next turn. */
static void
udp_relay_finish(struct udp_relay *r, unsigned code, const char *why)
{
	r->over = true;
	r->why = why;
	udp_relay_settle(r);
	close_socket(r);
	stream_close(&r->stream, code);
	timer_start(r->timer, 0, 0);
}

static const char *
error_text(int error)
{
	return error == ECONNREFUSED ? "port unreachable" : strerror(error);
}

/* --- sending, and choosing the address ------------------------------------------------------ */

static int
open_socket(struct udp_relay *r)
{
	int rc = sock_connect_udp(&r->to[r->at], r->mark, r->hops, &r->fd);

	if (rc < 0)
		return -rc;
	dgram_widen(r->fd);
	r->watch = watch_start(r->loop, r->fd, WATCH_READ, on_ready, r);
	return 0;
}

/* Errors that the target's side has answered with; other errors concern only the one datagram. */
static bool
is_refusal(int error)
{
	return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH;
}

/* The socket's error. A router's message that a datagram was longer than the path's MTU is about
 * that one alone. */
static int
take_error(struct udp_relay *r)
{
	int error = sock_error(r->fd);

	if (error != EMSGSIZE)
		return error;
	r->tally.dropped[DROP_SIZE]++;
	return 0;
}

/* Sends again what was sent to an earlier address. 0, or the error by which this address refuses as
 * well. */
static int
send_kept(struct udp_relay *r)
{
	const void *data;
	size_t at = 0, n;

	while (dgram_kept_next(&r->kept, &at, &data, &n))
		if (send(r->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && is_refusal(errno))
			return errno;
	return take_error(r); /* within the machine a refusal comes at once */
}

/* The address in use has refused: tries the next one. */
static void
try_next(struct udp_relay *r, int error)
{
	while (r->trying && r->at + 1 < r->n_to) {
		int rc;

		close_socket(r);
		r->at++;
		rc = open_socket(r);
		if (rc == 0 && r->kept.n > 0)
			rc = send_kept(r);
		if (rc == 0)
			return;
		error = rc;
	}
	udp_relay_finish(r, STREAM_BROKEN, error_text(error));
}

static void
send_one(struct udp_relay *r, const void *data, size_t n)
{
	int error;

	if (r->trying && dgram_keep(&r->kept, data, n) && r->kept.n == 1)
		timer_start(r->timer, UDP_RELAY_TRY_MS, 0);
	error = send(r->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
	if (error == 0 || is_refusal(error)) {
		r->tally.from_stream.datagrams++;
		r->tally.from_stream.bytes += n;
	} else {
		r->tally.dropped[dgram_send_failed(error)]++;
		return;
	}
	if (error == 0 && r->trying)
		error = take_error(r);
	if (error != 0)
		try_next(r, error);
}

static void
drain_stream(struct udp_relay *r)
{
	const void *data;
	size_t n;
	int rc = 0;

	while (!r->over && (rc = dgram_get(&r->reader, r->stream, &data, &n)) > 0) {
		r->moved_ms = loop_now_ms(r->loop);
		send_one(r, data, n);
	}
	if (r->over)
		return;
	if (rc < 0)
		udp_relay_finish(r, STREAM_CANCELLED, "what came is no capsules");
	else if (stream_eof(r->stream))
		udp_relay_finish(r, STREAM_CANCELLED, "done");
}

/* --- from the target ------------------------------------------------------------------------ */

static void
drain_socket(struct udp_relay *r)
{
	uint8_t data[DGRAM_BUFFER];
	size_t bytes = 0;

	for (unsigned i = 0; i < DGRAM_TURN && bytes < DGRAM_TURN_BYTES; i++) {
		ssize_t n = recv(r->fd, data, sizeof data, MSG_DONTWAIT);

		if (n < 0 && errno == EMSGSIZE) {
			r->tally.dropped[DROP_SIZE]++;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			try_next(r, errno);
		if (n < 0)
			return;
		if (r->trying)
			udp_relay_settle(r);
		bytes += (size_t)n;
		r->moved_ms = loop_now_ms(r->loop);
		if (!dgram_put(r->stream, data, (size_t)n)) {
			r->tally.dropped[DROP_QUEUE]++;
			continue;
		}
		r->tally.to_stream.datagrams++;
		r->tally.to_stream.bytes += (uint64_t)n;
	}
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct udp_relay *r = arg;
	int error = events & WATCH_HUP ? take_error(r) : 0;

	(void)fd;
	if (error != 0) {
		try_next(r, error);
		return;
	}
	/* the error ends nothing, or has been read elsewhere; and the watch has stopped */
	if (events & WATCH_HUP) {
		watch_stop(&r->watch);
		r->watch = watch_start(r->loop, r->fd, WATCH_READ, on_ready, r);
	}
	drain_socket(r);
}

/* --- stream events and timers --------------------------------------------------------------- */

static void
on_readable(void *arg)
{
	struct udp_relay *r = arg;

	if (!r->over)
		drain_stream(r);
}

static void
on_reset(void *arg, unsigned code)
{
	struct udp_relay *r = arg;

	if (!r->over)
		udp_relay_finish(r, STREAM_CANCELLED,
			code == STREAM_LOST ? "the session has ended" : "done");
}

static const struct stream_events stream_events = {.readable = on_readable, .reset = on_reset};

static void
on_timer(void *arg)
{
	struct udp_relay *r = arg;

	if (r->over) {
		struct udp_relay_report report = {&r->tally, r->status, r->why};

		r->ended(r->arg, &report);
		return;
	}
	if (r->trying)
		udp_relay_settle(r);
	if (!r->draining)
		return;
	if (loop_now_ms(r->loop) - r->moved_ms >= UDP_RELAY_QUIET_MS)
		udp_relay_finish(r, STREAM_CANCELLED, "the program stops");
	else
		timer_start(r->timer, UDP_RELAY_QUIET_MS, 0);
}

struct udp_relay *
udp_relay_start(const struct udp_relay_setup *setup)
{
	struct udp_relay *r = xcalloc(1, sizeof *r);
	int error = 0;

	r->loop = setup->loop;
	r->stream = setup->stream;
	r->mark = setup->mark;
	r->hops = setup->hops;
	r->ended = setup->ended;
	r->arg = setup->arg;
	r->fd = -1;
	r->n_to = setup->n_to;
	r->to = xmemdup(setup->to, setup->n_to * sizeof *setup->to);
	r->moved_ms = loop_now_ms(r->loop);
	r->timer = timer_new(r->loop, on_timer, r);
	stream_use(r->stream, &stream_events, r);
	while (r->at < r->n_to && (error = open_socket(r)) != 0)
		r->at++;
	r->status = error == 0 ? 200 : 502;
	stream_answer(r->stream, r->status, error == 0 ? "" : strerror(error));
	if (error != 0) {
		r->at = r->n_to - 1;
		udp_relay_finish(r, STREAM_CANCELLED, strerror(error));
		return r;
	}
	r->trying = r->at + 1 < r->n_to;
	drain_stream(r);
	return r;
}

unsigned
udp_relay_status(const struct udp_relay *r)
{
	return r->status;
}

const struct addr *
udp_relay_to(const struct udp_relay *r)
{
	return &r->to[r->at];
}

bool
udp_relay_local(const struct udp_relay *r, struct addr *to)
{
	memset(to, 0, sizeof *to);
	to->len = sizeof to->un;
	return r->fd >= 0 && getsockname(r->fd, &to->sa, &to->len) == 0;
}

const struct dgram_tally *
udp_relay_tally(const struct udp_relay *r)
{
	return &r->tally;
}

void
udp_relay_drain(struct udp_relay *r)
{
	if (r->over || r->draining)
		return;
	r->draining = true;
	timer_start(r->timer, UDP_RELAY_QUIET_MS, 0);
}

void
udp_relay_free(struct udp_relay **relay)
{
	struct udp_relay *r = take_ptr(relay);

	if (r == NULL)
		return;
	close_socket(r);
	stream_close(&r->stream, STREAM_CANCELLED);
	dgram_reader_fini(&r->reader);
	dgram_kept_fini(&r->kept);
	timer_free(&r->timer);
	free(r->to);
	free(r);
}
