#include "base/http/wsframe.h"

#include <assert.h>
#include <errno.h>

#include <wslay/wslay.h>

/* Section 5.2. */
enum {
	FINAL_BIT = 0x80,
	MASK_BIT = 0x80,
	LENGTH_16 = 126,
	MASK_BYTES = 4,
	HEAD_MAX = 2 + 2 + MASK_BYTES, /* of our own frames */
};

struct wsframe {
	wslay_event_context_ptr ctx;
	const uint8_t *from; /* input being read */
	size_t left;
	struct buf *in, *out; /* NULL outside of a call */
	uint64_t message; /* bytes size of the current message, according to its frame headers */
	bool payload; /* the current frame carries payload */
	bool client;
	bool closed; /* one end has closed: we send nothing more */
	unsigned refused; /* the code, 0: no */
};

/* --- libwslay's callbacks ------------------------------------------------------------------- */

static ssize_t
on_recv(wslay_event_context_ptr ctx, uint8_t *to, size_t size, int flags, void *arg)
{
	struct wsframe *f = arg;
	size_t n = MIN(size, f->left);

	(void)flags;
	if (n == 0) {
		wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	memcpy(to, f->from, n);
	f->from += n;
	f->left -= n;
	return (ssize_t)n;
}

static ssize_t
on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t n, int flags, void *arg)
{
	struct wsframe *f = arg;

	(void)ctx;
	(void)flags;
	buf_add(f->out, data, n);
	return (ssize_t)n;
}

/* Masks must be unpredictable: section 5.3. */
static int
on_mask(wslay_event_context_ptr ctx, uint8_t *to, size_t n, void *arg)
{
	(void)ctx;
	(void)arg;
	random_bytes(to, n);
	return 0;
}

static void
wsframe_refuse(struct wsframe *f, unsigned code)
{
	if (f->refused != 0)
		return;
	f->refused = code;
	f->payload = false;
	f->closed = true;
	(void)wslay_event_queue_close(f->ctx, (uint16_t)code, NULL, 0);
	wslay_event_shutdown_read(f->ctx);
}

static void
on_frame(wslay_event_context_ptr ctx, const struct wslay_event_on_frame_recv_start_arg *frame,
	void *arg)
{
	struct wsframe *f = arg;

	(void)ctx;
	f->payload = !wslay_is_ctrl_frame(frame->opcode) && f->refused == 0;
	if (!f->payload)
		return;
	if (frame->opcode != WSLAY_CONTINUATION_FRAME)
		f->message = 0;
	if (frame->opcode == WSLAY_TEXT_FRAME)
		wsframe_refuse(f, WSFRAME_TEXT);
	else if (frame->payload_length > WSFRAME_MESSAGE_MAX - f->message)
		wsframe_refuse(f, WSFRAME_TOO_BIG); /* libwslay limits only what it buffers */
	else
		f->message += frame->payload_length;
}

static void
on_piece(wslay_event_context_ptr ctx, const struct wslay_event_on_frame_recv_chunk_arg *piece,
	void *arg)
{
	struct wsframe *f = arg;

	(void)ctx;
	if (f->payload)
		buf_add(f->in, piece->data, piece->data_length);
}

/* --- frames --------------------------------------------------------------------------------- */

struct wsframe *
wsframe_new(bool client)
{
	static const struct wslay_event_callbacks calls = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.genmask_callback = on_mask,
		.on_frame_recv_start_callback = on_frame,
		.on_frame_recv_chunk_callback = on_piece,
	};
	struct wsframe *f = xcalloc(1, sizeof *f);

	f->client = client;
	if ((client ? wslay_event_context_client_init : wslay_event_context_server_init)(
		    &f->ctx, &calls, f) != 0)
		abort(); /* no memory */
	wslay_event_config_set_no_buffering(f->ctx, 1);
	return f;
}

void
wsframe_free(struct wsframe **out)
{
	struct wsframe *f = take_ptr(out);

	if (f == NULL)
		return;
	wslay_event_context_free(f->ctx);
	free(f);
}

int
wsframe_take(struct wsframe *f, const void *data, size_t n, struct buf *in)
{
	int rc;

	if (!wslay_event_get_read_enabled(f->ctx))
		return f->refused != 0 ? -EPROTO : 1;
	f->from = data;
	f->left = n;
	f->in = in;
	rc = wslay_event_recv(f->ctx);
	f->in = NULL;
	if (rc == WSLAY_ERR_NOMEM)
		abort();
	if (f->refused != 0)
		return -EPROTO;
	if (rc == 0 && wslay_event_get_read_enabled(f->ctx))
		return 0;
	f->closed = true;
	if (wslay_event_get_close_received(f->ctx))
		return 1;
	f->refused = WSFRAME_PROTOCOL; /* until its close frame gives the code */
	return -EPROTO;
}

/* Moves everything queued in libwslay to `out`. */
static void
wsframe_flush(struct wsframe *f, struct buf *out)
{
	f->out = out;
	if (wslay_event_send(f->ctx) == WSLAY_ERR_NOMEM)
		abort();
	f->out = NULL;
	/* libwslay sends no code when the frame itself was invalid. */
	if (f->refused != 0 && wslay_event_get_close_sent(f->ctx) &&
		wslay_event_get_status_code_sent(f->ctx) != WSLAY_CODE_NO_STATUS_RCVD)
		f->refused = wslay_event_get_status_code_sent(f->ctx);
}

/* Section 5.3, eight bytes at a time: libwslay does one at a time, which costs a second of CPU per
 * GB. */
static void
copy_masked(uint8_t *to, const uint8_t *from, size_t n, const uint8_t mask[MASK_BYTES])
{
	uint64_t both, word;
	size_t i = 0;

	memcpy(&both, mask, MASK_BYTES);
	memcpy((uint8_t *)&both + MASK_BYTES, mask, MASK_BYTES);
	for (; i + sizeof word <= n; i += sizeof word) {
		memcpy(&word, from + i, sizeof word);
		word ^= both;
		memcpy(to + i, &word, sizeof word);
	}
	for (; i < n; i++)
		to[i] = from[i] ^ mask[i % MASK_BYTES];
}

/* Appends one frame; n <= WSFRAME_PAYLOAD. */
static void
put_frame(const struct wsframe *f, const uint8_t *from, size_t n, struct buf *out)
{
	uint8_t *to = (uint8_t *)buf_reserve(out, HEAD_MAX + n), *at = to;

	*at++ = FINAL_BIT | WSLAY_BINARY_FRAME;
	*at++ = (uint8_t)((f->client ? MASK_BIT : 0) | (n < LENGTH_16 ? n : LENGTH_16));
	if (n >= LENGTH_16) {
		*at++ = (uint8_t)(n >> 8);
		*at++ = (uint8_t)n;
	}
	if (f->client) {
		random_bytes(at, MASK_BYTES);
		copy_masked(at + MASK_BYTES, from, n, at);
		at += MASK_BYTES;
	} else {
		memcpy(at, from, n);
	}
	buf_commit(out, (size_t)(at - to) + n);
}

void
wsframe_put(struct wsframe *f, const void *data, size_t n, struct buf *out)
{
	const uint8_t *at = data;

	wsframe_emit(f, out); /* keeps frames whole and in order */
	while (n > 0 && !f->closed) {
		size_t piece = MIN(n, (size_t)WSFRAME_PAYLOAD);

		put_frame(f, at, piece, out);
		at += piece;
		n -= piece;
	}
}

void
wsframe_ping(struct wsframe *f)
{
	const struct wslay_event_msg msg = {WSLAY_PING, NULL, 0};

	(void)wslay_event_queue_msg(f->ctx, &msg);
}

void
wsframe_close(struct wsframe *f, enum wsframe_code code)
{
	f->closed = true;
	(void)wslay_event_queue_close(f->ctx, (uint16_t)code, NULL, 0);
}

void
wsframe_emit(struct wsframe *f, struct buf *out)
{
	if (wslay_event_want_write(f->ctx))
		wsframe_flush(f, out);
}

unsigned
wsframe_closed(const struct wsframe *f)
{
	return f->refused != 0 ? f->refused : wslay_event_get_status_code_received(f->ctx);
}

const char *
wsframe_words(unsigned code)
{
	switch (code) {
	case WSFRAME_NORMAL:
		return "it closed the websocket";
	case WSFRAME_LEAVING:
		return "it goes away";
	case WSFRAME_PROTOCOL:
		return "frames against the rules of websockets";
	case WSFRAME_TEXT:
		return "a text where bytes are carried";
	case WSFRAME_POLICY:
		return "more pings than answers are taken";
	case WSFRAME_TOO_BIG:
		return "a message that is too large";
	default:
		return "no reason that is known";
	}
}
