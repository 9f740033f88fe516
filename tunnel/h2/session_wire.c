/* Between the transport and the codec, both directions. */
#include "tunnel/h2/session_private.h"

#include <errno.h>
#include <stdio.h>

enum { RESETS_BURST_S = 4 };

/* Where to read to. During bulk transfers it is a piece that a stream may keep. */
static void *
reading_place(struct session *s, uint8_t small[TRANSPORT_READ_BYTES])
{
	if (!s->bulk)
		return small;
	if (s->reading == NULL)
		s->reading = piece_new(&s->budget->spare);
	return piece_bytes(s->reading);
}

bool
session_rests(const struct session *s)
{
	return s->rest != NULL && timer_active(s->rest);
}

static void
session_on_rested(void *arg)
{
	struct session *s = arg;

	s->wire->ops->hold(s->wire, false);
	session_kick(s); /* the transport may hold bytes that no event announces */
}

/* Opening a stream and giving it up, or one more than it may, costs the peer less than this end. */
static void
session_rest(struct session *s, uint64_t opened_in_vain)
{
	unsigned per_s = s->limits.resets_per_s;
	bool was_resting;
	double over;

	if (per_s == 0 || opened_in_vain == 0)
		return;
	over = rate_count_used(&s->given_up, per_s, loop_now_ms(s->loop)) + (double)opened_in_vain -
		RESETS_BURST_S * per_s;
	s->given_up.used += (double)opened_in_vain;
	if (over <= 0 || s->wire->ops->hold == NULL)
		return;
	if (s->rest == NULL)
		s->rest = timer_new(s->loop, session_on_rested, s);
	was_resting = timer_active(s->rest);
	s->wire->ops->hold(s->wire, true);
	timer_start(s->rest, (uint64_t)(over / per_s * 1000) + 1, 0);
	if (was_resting)
		return;
	s->stats.rests++;
	if (s->events->slowed != NULL)
		s->events->slowed(s->arg);
}

/* > 0: number of bytes read and processed; 0: none for now; -errno: the end. */
static ssize_t
read_some(struct session *s)
{
	uint8_t small[TRANSPORT_READ_BYTES], *bytes = reading_place(s, small);
	ssize_t n = s->wire->ops->read(s->wire, bytes, TRANSPORT_READ_BYTES);
	const struct h2_counts *counts;
	int rc;

	if (n == -EAGAIN) {
		session_wire_dry(s, true);
		return 0;
	}
	if (n == 0)
		snprintf(s->why, sizeof s->why, "the peer closed the connection");
	if (n <= 0)
		return n == 0 ? -ECONNRESET : n;
	session_wire_dry(s, false);
	session_heard(s);
	s->bulk = n >= TRANSPORT_READ_BYTES / 2;
	s->read_bytes = (size_t)n;
	if (s->state == SESSION_PARTING && !s->server)
		session_hear_parting(s, bytes, (size_t)n);
	rc = h2_input(s->h2, bytes, (size_t)n, s->heard_ms);
	counts = h2_counts(s->h2);
	s->stats.useless = counts->useless;
	session_rest(s, counts->resets + counts->refused - s->opened_in_vain);
	s->opened_in_vain = counts->resets + counts->refused;
	s->stats.resets_received = counts->resets;
	if (rc < 0) {
		snprintf(s->why, sizeof s->why, "HTTP/2: %s", h2_why(s->h2));
		return rc;
	}
	return n;
}

/* 0; 1: there may be more; -errno: the end. */
int
session_read_wire(struct session *s)
{
	size_t total = 0;
	ssize_t n;

	do {
		n = read_some(s);
		total += n > 0 ? (size_t)n : 0;
	} while (n > 0 && total < SESSION_TURN && !session_turn_is_over(s) && !session_rests(s));
	piece_drop(&s->budget->spare, &s->reading);
	return n < 0 ? (int)n : n > 0; /* the transport may hold bytes that no event announces */
}

int
session_gather_out(struct session *s)
{
	while (buf_len(&s->out) > 0) {
		ssize_t n = s->wire->ops->gather(
			s->wire, buf_at(&s->out), MIN(buf_len(&s->out), (size_t)TLS_RECORD_BYTES));

		if (n < 0)
			return (int)n;
		buf_consume(&s->out, (size_t)n);
	}
	return 0;
}

/* Sends the built frames: 0: all of them, -EAGAIN or another -errno. */
static int
send_out(struct session *s)
{
	const struct transport_ops *ops = s->wire->ops;
	int rc;

	if (ops->gather != NULL) {
		rc = session_gather_out(s);
		return rc == 0 ? ops->send(s->wire) : rc;
	}
	while (buf_len(&s->out) > 0) {
		ssize_t n = ops->write(s->wire, buf_at(&s->out), buf_len(&s->out));

		if (n < 0)
			return (int)n;
		buf_consume(&s->out, (size_t)n);
	}
	return 0;
}

/* Builds frames into s->out, or passes DATA straight to the transport, as far as allowed now. */
static int
make_frames(struct session *s)
{
	do {
		s->held_up = false;
		s->failed = 0;
		h2_output(s->h2, &s->out, SESSION_OUT_HIGH);
		s->held_up |= buf_len(&s->out) >= SESSION_OUT_HIGH;
	} while (!s->held_up && s->failed == 0 && frames_next_turn(s));
	return s->failed;
}

static void
session_wire_want(struct session *s, bool writable)
{
	if (writable != s->out_waits)
		s->wire->ops->want(s->wire, writable);
	s->out_waits = writable;
}

int
session_write_wire(struct session *s)
{
	int rc;

	s->made = 0;
	frames_pace(s);
	do {
		rc = make_frames(s);
		if (rc == 0)
			rc = send_out(s);
	} while (rc == 0 && s->held_up && s->made < SESSION_TURN);
	if (rc < 0 && rc != -EAGAIN)
		return rc;
	session_wire_want(s, rc == -EAGAIN);
	if (buf_len(&s->out) == 0)
		buf_release(&s->out);
	if (rc == 0 && s->held_up)
		session_kick(s);
	return 0;
}
