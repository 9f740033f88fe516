/*
 * The callbacks of nghttp2. They only note events for owners (stream_note): what an owner does in
 * response calls nghttp2 again, which must have returned by then.
 */
#include "tunnel/h2/session_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	HEAD_BYTES = 8 * 1024, /* names and values of one header section */
};

static struct stream *
session_frames_find(nghttp2_session *ng, int32_t id)
{
	return nghttp2_session_get_stream_user_data(ng, id);
}

static int
on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct session *s = arg;
	struct stream *st;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	st = stream_create(s);
	st->id = frame->hd.stream_id;
	st->head = xcalloc(1, sizeof *st->head);
	nghttp2_session_set_stream_user_data(ng, st->id, st);
	return 0;
}

static void
keep_field(struct head *h, const uint8_t *name, size_t name_len, const uint8_t *value, size_t len)
{
	if (h->n == STREAM_FIELDS_MAX)
		return;
	h->names[h->n] = xstrndup((const char *)name, name_len);
	h->values[h->n++] = xstrndup((const char *)value, len);
}

static bool
session_frames_is(const uint8_t *name, size_t len, const char *what)
{
	return len == strlen(what) && memcmp(name, what, len) == 0;
}

static void
set_text(char **to, const uint8_t *value, size_t len)
{
	free(*to);
	*to = xstrndup((const char *)value, len);
}

static void
set_status(struct head *h, const uint8_t *value, size_t len)
{
	h->status = 0; /* three digits: nghttp2 has checked it */
	for (size_t i = 0; i < len && i < 3; i++)
		h->status = h->status * 10 + (value[i] - '0');
}

static int
on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
	const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
	struct stream *st = session_frames_find(ng, frame->hd.stream_id);
	struct head *h = st != NULL ? st->head : NULL;
	struct session *s = arg;

	(void)flags;
	if (h == NULL) /* a trailer, or a stream that is no longer wanted */
		return 0;
	h->bytes += name_len + len + 32; /* as in RFC 9113 section 6.5.2 */
	if (h->bytes > HEAD_BYTES) {
		s->large_heads++;
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	if (session_frames_is(name, name_len, ":authority"))
		set_text(&h->authority, value, len);
	else if (session_frames_is(name, name_len, ":method"))
		h->connect = session_frames_is(value, len, "CONNECT");
	else if (session_frames_is(name, name_len, ":protocol")) {
		h->protocol = true;
		h->udp = session_frames_is(value, len, "connect-udp");
	} else if (session_frames_is(name, name_len, ":path"))
		set_text(&h->path, value, len);
	else if (session_frames_is(name, name_len, ":status"))
		set_status(h, value, len);
	else if (session_frames_is(name, name_len, "edgeway-reason"))
		set_text(&h->reason, value, MIN(len, (size_t)STREAM_REASON_MAX));
	else if (session_frames_is(name, name_len, "edgeway-encoding"))
		h->deflate = session_frames_is(value, len, "deflate");
	else if (name_len > 0 && name[0] != ':')
		keep_field(h, name, name_len, value, len);
	return 0;
}

static void
on_head(struct session *s, struct stream *st)
{
	if (s->server) {
		if (!st->answered && st->events == NULL && st->head != NULL) {
			st->udp = st->head->udp;
			st->offered = st->head->deflate && s->squeeze && !st->udp;
			stream_note(st, NOTE_OPENED);
		}
	} else if (st->head != NULL && st->head->status >= 200) {
		st->answered = true;
		if (st->offered && st->head->status == 200 && st->head->deflate)
			coding_start(st);
		stream_note(st, NOTE_ANSWERED);
		if (st->wants_room)
			stream_note(st, NOTE_WRITABLE);
		st->wants_room = false;
	}
}

static bool
is_asking(const nghttp2_frame *frame)
{
	return memcmp(frame->ping.opaque_data, session_asking, sizeof session_asking) == 0;
}

static bool
is_leaving(const nghttp2_frame *frame)
{
	return memcmp(frame->ping.opaque_data, session_leaving, sizeof session_leaving) == 0;
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
on_ping(struct session *s, const nghttp2_frame *frame)
{
	if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
		session_heed_beat(s, frame->ping.opaque_data);
		s->asked |= !s->server && is_asking(frame);
		if (s->server && is_leaving(frame))
			frames_peer_drains(s, false);
		return;
	}
	if (is_asking(frame) || is_leaving(frame))
		return;
	if (s->ping_ms == 0 ||
		memcmp(frame->ping.opaque_data, session_parting, sizeof session_parting) == 0)
		return;
	session_ping_answered(s);
}

/* Once the peer's GOAWAY has come and no stream is left, nghttp2 ignores all input, including the
 * answer to our last ping. So the raw bytes are searched for it. */
void
session_hear_parting(struct session *s, const uint8_t *bytes, size_t n)
{
	uint8_t answer[SESSION_PING_BYTES] = {
		0, 0, sizeof session_parting, NGHTTP2_PING, NGHTTP2_FLAG_ACK};

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
on_goaway(struct session *s, uint32_t code)
{
	struct stream *st;

	s->peer_code = code;
	frames_peer_drains(s, code != NGHTTP2_NO_ERROR);
	TAILQ_FOREACH(st, &s->streams, link)
		frames_hear_fading(st, false);
}

static int
on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct session *s = arg;
	struct stream *st =
		frame->hd.stream_id > 0 ? session_frames_find(ng, frame->hd.stream_id) : NULL;

	if (frame->hd.type == NGHTTP2_PING)
		on_ping(s, frame);
	if (frame->hd.type == NGHTTP2_SETTINGS && s->state == SESSION_HANDSHAKE)
		session_go(s, SESSION_OPEN);
	if (frame->hd.type == NGHTTP2_GOAWAY) {
		on_goaway(s, frame->goaway.error_code);
		return 0;
	}
	if (st == NULL)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS)
		on_head(s, st);
	if (frame->hd.type == SESSION_FADING)
		frames_hear_fading(st, frame->hd.flags & SESSION_FADING_DOUBTED);
	if (frame->hd.type == NGHTTP2_RST_STREAM)
		s->stats.resets_received++;
	if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
		(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
		st->far_ended = true;
		stream_note(st, NOTE_READABLE);
	}
	return 0;
}

static int
on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *arg)
{
	struct session *s = arg;
	struct stream *st = session_frames_find(ng, id);

	(void)flags;
	session_received(s, len);
	if (st == NULL) {
		nghttp2_session_consume_stream(ng, id, len);
		return 0;
	}
	/* nghttp2 does not look again at the tail of the bytes that were read: it need not be
	 * copied. */
	if (s->reading != NULL && len >= SESSION_BULK &&
		data + len == (uint8_t *)piece_bytes(s->reading) + s->read_bytes)
		chain_take(&st->in, &s->reading, data, len);
	else
		chain_add(&st->in, data, len);
	s->budget->held += len;
	s->stats.bytes_in += len;
	st->bytes_in += len;
	stream_note(st, NOTE_READABLE);
	return 0;
}

/* A refusal was sent: the other end need not finish its request (RFC 9113 section 8.1). */
static int
on_sent(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct stream *st =
		frame->hd.stream_id > 0 ? session_frames_find(ng, frame->hd.stream_id) : NULL;

	(void)arg;
	if (st != NULL && st->refused && !st->far_ended && frame->hd.type == NGHTTP2_HEADERS)
		nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_NO_ERROR);
	return 0;
}

static int
on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *arg)
{
	struct stream *st = session_frames_find(ng, id);

	(void)arg;
	if (st == NULL)
		return 0;
	nghttp2_session_set_stream_user_data(ng, id, NULL);
	frames_forget(st);
	st->id = 0;
	st->deferred = false;
	st->code = code;
	if (st->events == NULL) {
		stream_destroy(st);
		return 0;
	}
	if (code != NGHTTP2_NO_ERROR || !st->far_ended || !st->ended || st->out.len > 0)
		stream_note(st, NOTE_RESET);
	return 0;
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

static int
send_data(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *head, size_t len,
	nghttp2_data_source *source, void *arg)
{
	struct session *s = arg;
	struct stream *st = source->ptr;
	const void *bytes;
	ssize_t rc;

	(void)ng;
	(void)frame;
	s->held_up = true;
	if (buf_len(&s->out) >= SESSION_OUT_HIGH || s->made >= SESSION_TURN)
		return NGHTTP2_ERR_WOULDBLOCK;
	chain_peek(&st->out, &bytes);
	rc = hand_over(s, head, bytes, len);
	if (rc < 0) {
		s->failed = rc == -EAGAIN ? 0 : (int)rc;
		return NGHTTP2_ERR_WOULDBLOCK;
	}
	s->held_up = false;
	session_asked(s);
	s->made += len;
	s->paced += len;
	frame_budget_sent(&s->frames, len);
	chain_consume(&st->out, len);
	s->budget->queued -= len;
	s->stats.bytes_out += len;
	st->bytes_out += len;
	if (st->wants_room && st->out.len <= STREAM_OUT_BYTES / 2) {
		st->wants_room = false;
		stream_note(st, NOTE_WRITABLE);
	}
	return 0;
}

/* --- turns to send -------------------------------------------------------------------------- */

/* nghttp2 would take a frame of each stream in turn, and the other end would write each frame
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

	if (st == NULL || nghttp2_session_get_remote_window_size(s->ng) <= 0)
		return false;
	frames_forget(st);
	s->sending = st;
	s->sending_left = MAX(s->turn_bytes, (size_t)1);
	nghttp2_session_resume_data(s->ng, st->id);
	return true;
}

ssize_t
frames_source(nghttp2_session *ng, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
	nghttp2_data_source *source, void *arg)
{
	struct stream *st = source->ptr;
	const void *bytes;
	size_t n = MIN(chain_peek(&st->out, &bytes), MIN(size, (size_t)WIRE_PAYLOAD_BYTES));

	(void)ng;
	(void)id;
	(void)to;
	if (n == 0 && !st->ended) {
		st->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	if (st->out.len > WIRE_PAYLOAD_BYTES && !has_turn(arg, st, n))
		return NGHTTP2_ERR_DEFERRED;
	*flags = NGHTTP2_DATA_FLAG_NO_COPY;
	if (st->ended && n == st->out.len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

/* SESSION_FADING has no payload; if one comes, it is ignored. */
static ssize_t
pack_nothing(nghttp2_session *ng, uint8_t *to, size_t len, const nghttp2_frame *frame, void *arg)
{
	(void)ng;
	(void)to;
	(void)len;
	(void)frame;
	(void)arg;
	return 0;
}

static int
unpack_nothing(nghttp2_session *ng, void **payload, const nghttp2_frame_hd *hd, void *arg)
{
	(void)ng;
	(void)hd;
	(void)arg;
	*payload = NULL;
	return 0;
}

void
frames_set(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_pack_extension_callback(callbacks, pack_nothing);
	nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, unpack_nothing);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
}
