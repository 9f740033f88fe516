/*
 * The codec's events. They only note events for owners (stream_note): what an owner does in
 * response calls the codec again, which must have returned by then.
 */
#include "tunnel/h2/session_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* PING and its flag for an answer, RFC 9113 section 6.7. */
enum { FRAME_PING = 0x6, FRAME_ACK = 0x1 };

/* Takes the header section; false: it is longer than allowed, and the stream ends. */
static bool
frames_take_head(struct stream *st, struct h2_section *section)
{
	size_t len = buf_len(&section->text);

	if (section->too_large) {
		h2_reset(st->session->h2, st->id, H2_INTERNAL_ERROR);
		return false;
	}
	head_free(&st->head);
	st->head = xmalloc(sizeof *st->head);
	*st->head = *section;
	st->head->text =
		(struct buf){.data = xmemdup(buf_at(&section->text), len), .end = len, .size = len};
	return true;
}

static void
on_end(void *arg, void *stream)
{
	struct stream *st = stream;

	(void)arg;
	st->far_ended = true;
	stream_note(st, NOTE_READABLE);
}

static void *
on_request(void *arg, int32_t id, struct h2_section *section, bool last)
{
	struct stream *st = stream_create(arg);

	st->id = id;
	if (!frames_take_head(st, section)) {
		stream_destroy(st);
		return NULL;
	}
	stream_note(st, NOTE_OPENED);
	if (last)
		on_end(arg, st);
	return st;
}

static void
on_head(void *arg, void *stream, enum h2_part part, struct h2_section *section, bool last)
{
	struct stream *st = stream;

	if (part == H2_RESPONSE && frames_take_head(st, section)) {
		st->answered = true;
		if (st->offered && head_status(st->head) == 200 && head_squeezes(st->head))
			coding_start(st);
		stream_note(st, NOTE_ANSWERED);
		if (st->wants_room)
			stream_note(st, NOTE_WRITABLE);
		st->wants_room = false;
	}
	if (last)
		on_end(arg, st);
}

static bool
is_one_of(const uint8_t payload[H2_PING_BYTES], const uint8_t what[H2_PING_BYTES])
{
	return memcmp(payload, what, H2_PING_BYTES) == 0;
}

static void
frames_peer_drains(struct session *s, bool failed)
{
	s->peer_drains = true;
	if (failed && s->state <= SESSION_PEER_DRAINING)
		session_go(s, SESSION_PEER_FAILED);
	else if (s->state == SESSION_OPEN)
		session_go(s, SESSION_PEER_DRAINING);
}

static void
on_ping(void *arg, const uint8_t payload[H2_PING_BYTES], bool ack)
{
	struct session *s = arg;

	s->beaten = true;
	if (!ack) {
		session_heed_beat(s, payload);
		s->asked |= is_one_of(payload, session_asking);
		if (s->server && is_one_of(payload, session_leaving))
			frames_peer_drains(s, false);
	} else if (s->ping_ms != 0 && !is_one_of(payload, session_asking) &&
		!is_one_of(payload, session_leaving) && !is_one_of(payload, session_parting)) {
		session_ping_answered(s);
	}
}

/* Once the peer's GOAWAY has come and no stream is left, nghttp2 ignores all input, including the
 * answer to our last ping. So the raw bytes are searched for it. */
void
session_hear_parting(struct session *s, const uint8_t *bytes, size_t n)
{
	uint8_t answer[SESSION_PING_BYTES] = {0, 0, sizeof session_parting, FRAME_PING, FRAME_ACK};

	memcpy(answer + sizeof answer - sizeof session_parting, session_parting,
		sizeof session_parting);
	for (size_t i = 0; i < n; i++) {
		memmove(s->parting_heard, s->parting_heard + 1, sizeof answer - 1);
		s->parting_heard[sizeof answer - 1] = bytes[i];
		if (s->state == SESSION_PARTING &&
			memcmp(s->parting_heard, answer, sizeof answer) == 0)
			session_go(s, SESSION_PARTED);
	}
}

void
frames_hear_fading(struct stream *st, bool doubted)
{
	if (st->session->server || (st->fading && (st->doubted || !doubted)))
		return;
	st->fading = true;
	st->doubted |= doubted;
	stream_note(st, NOTE_FADING);
}

static void
on_extension(void *arg, void *stream, uint8_t flags)
{
	(void)arg;
	frames_hear_fading(stream, flags & SESSION_FADING_DOUBTED);
}

static void
on_settings(void *arg)
{
	struct session *s = arg;

	if (s->state == SESSION_HANDSHAKE)
		session_go(s, SESSION_OPEN);
}

static void
on_goaway(void *arg, uint32_t code)
{
	struct session *s = arg;
	struct stream *st;

	s->peer_code = code;
	frames_peer_drains(s, code != H2_NO_ERROR);
	TAILQ_FOREACH(st, &s->streams, link)
		frames_hear_fading(st, false);
}

static void
on_data(void *arg, void *stream, const char *data, size_t len)
{
	struct session *s = arg;
	struct stream *st = stream;

	session_received(s, len);
	if (!st->given_up && stream_overflows(st))
		stream_give_up(st, STREAM_CANCELLED);
	if (st->given_up)
		return;
	/* The codec does not look again at the tail of the bytes that were read: it need not be
	 * copied. */
	if (s->reading != NULL && len >= SESSION_BULK &&
		data + len == (char *)piece_bytes(s->reading) + s->read_bytes)
		chain_take(&st->in, &s->reading, data, len);
	else
		chain_add(&st->in, data, len);
	stream_holds(st, len);
	s->stats.bytes_in += len;
	st->bytes_in += len;
	stream_note(st, NOTE_READABLE);
}

static void
on_closed(void *arg, void *stream, uint32_t code)
{
	struct stream *st = stream;

	(void)arg;
	frames_forget(st);
	st->id = 0;
	st->deferred = false;
	st->code = code;
	if (st->events == NULL)
		stream_destroy(st);
	else if (code != H2_NO_ERROR || !st->far_ended || !st->ended || st->out.len > 0)
		stream_note(st, NOTE_RESET);
}

/* Small payloads are copied behind the queued output; large ones go out uncopied, with the frame
 * header written in front of them. */
static ssize_t
hand_over(struct session *s, const uint8_t *head, const void *bytes, size_t len)
{
	uint8_t *from;
	int rc;

	if (len < SESSION_BULK || s->wire->ops->gather == NULL) {
		buf_add(&s->out, head, WIRE_FRAME_HEAD);
		buf_add(&s->out, bytes, len);
		return 0;
	}
	rc = session_gather_out(s);
	if (rc < 0)
		return rc;
	from = (uint8_t *)(uintptr_t)bytes - CHAIN_HEADROOM;
	memcpy(from, head, WIRE_FRAME_HEAD);
	return s->wire->ops->gather(s->wire, from, WIRE_FRAME_HEAD + len);
}

static bool
on_send(void *arg, void *stream, const uint8_t head[H2_FRAME_HEAD], size_t len)
{
	struct session *s = arg;
	struct stream *st = stream;
	const void *bytes;
	ssize_t rc;

	s->held_up = true;
	if (buf_len(&s->out) >= SESSION_OUT_HIGH || s->made >= SESSION_TURN)
		return false;
	chain_peek(&st->out, &bytes);
	rc = hand_over(s, head, bytes, len);
	if (rc < 0) {
		s->failed = rc == -EAGAIN ? 0 : (int)rc;
		return false;
	}
	s->held_up = false;
	session_asked(s);
	s->made += len;
	s->paced += len;
	chain_consume(&st->out, len);
	stream_gives(st, &s->budget->queued, len);
	s->stats.bytes_out += len;
	st->bytes_out += len;
	if (st->wants_room && st->out.len <= STREAM_OUT_BYTES / 2) {
		st->wants_room = false;
		stream_note(st, NOTE_WRITABLE);
	}
	return true;
}

/* --- turns to send -------------------------------------------------------------------------- */

/* The codec would take a frame of each stream in turn, and the other end would write each frame
 * separately to a different socket. So of the streams with more than one frame queued, one sends at
 * a time, as much as is sent in a millisecond. Streams with less do not wait. */

void
frames_pace(struct session *s)
{
	uint64_t now = loop_now_ms(s->loop);

	if (now == s->pace_ms)
		return;
	s->turn_bytes = MIN((size_t)(s->paced / (now - s->pace_ms)), (size_t)STREAM_OUT_BYTES);
	s->paced = 0;
	s->pace_ms = now;
}

static bool
has_turn(struct session *s, struct stream *st, size_t n)
{
	if (s->sending == st && s->sending_left == 0)
		s->sending = NULL;
	if (s->sending == NULL && TAILQ_EMPTY(&s->waiting)) {
		s->sending = st;
		s->sending_left = s->turn_bytes;
	}
	if (s->sending != st) {
		TAILQ_INSERT_TAIL(&s->waiting, st, waits);
		st->waits_turn = true;
		return false;
	}
	s->sending_left -= MIN(s->sending_left, n);
	return true;
}

void
frames_forget(struct stream *st)
{
	struct session *s = st->session;

	if (st->waits_turn)
		TAILQ_REMOVE(&s->waiting, st, waits);
	st->waits_turn = false;
	if (s->sending == st)
		s->sending = NULL;
}

bool
frames_next_turn(struct session *s)
{
	struct stream *st = TAILQ_FIRST(&s->waiting);

	if (st == NULL || h2_room(s->h2, 0) <= 0)
		return false;
	frames_forget(st);
	s->sending = st;
	s->sending_left = MAX(s->turn_bytes, (size_t)1);
	h2_resume(s->h2, st->id);
	return true;
}

static size_t
on_source(void *arg, void *stream, const char **at, enum h2_rest *rest)
{
	struct stream *st = stream;
	const void *bytes;
	size_t n = MIN(chain_peek(&st->out, &bytes), (size_t)WIRE_PAYLOAD_BYTES);

	st->deferred = n == 0 && !st->ended;
	if (st->out.len > WIRE_PAYLOAD_BYTES && !has_turn(arg, st, n))
		return 0;
	*at = bytes;
	if (st->ended && n == st->out.len)
		*rest = H2_HALF;
	return n;
}

const struct h2_events frames_events = {
	.request = on_request,
	.head = on_head,
	.data = on_data,
	.end = on_end,
	.closed = on_closed,
	.source = on_source,
	.send = on_send,
	.settings = on_settings,
	.goaway = on_goaway,
	.ping = on_ping,
	.extension = on_extension,
};
