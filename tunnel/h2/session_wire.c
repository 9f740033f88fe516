/* Between the transport and nghttp2, both directions. */
#include "tunnel/h2/session_private.h"

#include <errno.h>
#include <stdio.h>

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

/* Ends the session: sends the reason, if the peer still listens. */
static void
session_cut_off(struct session *s, const char *kind)
{
	snprintf(s->why, sizeof s->why, "more than %d frames a second that carry nothing (%s)",
		FRAME_BUDGET_RATE, kind);
	s->flooded = true;
	nghttp2_session_terminate_session(s->ng, NGHTTP2_ENHANCE_YOUR_CALM);
}

static bool
session_within_budget(struct session *s, const uint8_t *bytes, size_t n)
{
	const char *kind = frame_budget_read(&s->frames, bytes, n, s->heard_ms);

	s->stats.useless = s->frames.useless;
	if (kind != NULL)
		session_cut_off(s, kind);
	return kind == NULL;
}

/* > 0: number of bytes read and processed; 0: none for now; -errno: the end. */
static ssize_t
read_some(struct session *s)
{
	uint8_t small[TRANSPORT_READ_BYTES], *bytes = reading_place(s, small);
	ssize_t n = s->wire->ops->read(s->wire, bytes, TRANSPORT_READ_BYTES), took;

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
	if (!session_within_budget(s, bytes, (size_t)n))
		return -EPROTO;
	took = nghttp2_session_mem_recv(s->ng, bytes, (size_t)n);
	if (s->large_heads > 0 &&
		!frame_budget_spend(
			&s->frames, s->large_heads * FRAME_BUDGET_LARGE_HEAD, s->heard_ms)) {
		session_cut_off(s, "large HEADERS");
		return -EPROTO;
	}
	s->large_heads = 0;
	if (took < 0) {
		snprintf(s->why, sizeof s->why, "HTTP/2: %s", nghttp2_strerror((int)took));
		return -EPROTO;
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
	} while (n > 0 && total < SESSION_TURN && !session_turn_is_over(s));
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
	s->held_up = false;
	s->failed = 0;
	while (buf_len(&s->out) < SESSION_OUT_HIGH) {
		const uint8_t *bytes;
		ssize_t n = nghttp2_session_mem_send(s->ng, &bytes);

		if (n < 0) {
			snprintf(s->why, sizeof s->why, "HTTP/2: %s", nghttp2_strerror((int)n));
			return -EPROTO;
		}
		if (n == 0 && !s->held_up && s->failed == 0 && frames_next_turn(s))
			continue;
		if (n == 0)
			return s->failed;
		s->memory.used = true;
		buf_add(&s->out, bytes, (size_t)n);
	}
	s->held_up = true;
	return 0;
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
	if (rc == 0 && !s->held_up && s->stats.streams == 0)
		session_memory_rest(&s->memory);
	if (rc == 0 && s->held_up)
		session_kick(s);
	return 0;
}
