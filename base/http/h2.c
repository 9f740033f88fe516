#include "base/http/h2.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>

#include "base/http/frame_budget.h"
#include "base/http/session_memory.h"

enum {
	H2_BAD_FRAME = 8, /* frames that carry nothing, as which one against the rules counts */
	H2_UNLIMITED = 1 << 30,
	H2_ACKS_MAX = 1000, /* answers to PING and SETTINGS that wait for the other end to read */
	H2_WINDOW_PART = 8, /* of a window, is given back at once, */
	H2_WINDOW_STEP = 32 * 1024, /* but not less than this */
};

static const struct h2_limits proxy_limits = {
	.streams = H2_STREAMS_MAX,
	.window = H2_WINDOW,
	.head = HTTP1_HEAD_MAX,
	.head_free = HTTP1_HEAD_MAX,
	.table = 4096,
	.reset = 2, /* 4000 at once, 500 a second */
	.frames = 4000,
	.protocols = true,
};

struct h2 {
	nghttp2_session *ng;
	struct session_memory memory; /* used by ng */
	const struct h2_events *events;
	void *arg;
	struct h2_limits limits;
	struct h2_counts counts;
	struct h2_section section; /* that is being received */
	bool receiving; /* it is not complete */
	const char *flood; /* more of that than frame_budget allows; NULL: not so */
	uint64_t now_ms;
	int32_t not_sent; /* a request that could not be sent any more */
	struct frame_budget budget;
	struct buf *out; /* of h2_output, while that runs */
	size_t most;
	bool half; /* the DATA that is being sent ends one direction only */
	bool drained; /* it took all that there was: nghttp2 drops it until h2_resume */
	uint32_t code; /* h2_code */
	bool server;
	bool settled; /* the other end's SETTINGS have come */
	bool cut; /* the connection ends, whatever comes */
	char why[96];
};

/* --- nghttp2's callbacks -------------------------------------------------------------------- */

/* The only way to the session: h2_rest may have packed it. */
static nghttp2_session *
h2_awake(const struct h2 *s)
{
	session_memory_wake(&((struct h2 *)(uintptr_t)s)->memory);
	return s->ng;
}

static void *
h2_stream(nghttp2_session *ng, int32_t id)
{
	return nghttp2_session_get_stream_user_data(ng, id);
}

static void
h2_spend(struct h2 *s, unsigned n, const char *what)
{
	if (!s->limits.trusted && !frame_budget_spend(&s->budget, n, s->now_ms))
		s->flood = what;
}

static int
on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2 *s = arg;

	(void)ng;
	(void)frame;
	buf_consume(&s->section.text, buf_len(&s->section.text));
	s->section.n = 0;
	s->section.too_large = s->section.secret = false;
	s->receiving = true;
	return 0;
}

static int
on_header(nghttp2_session *ng, const nghttp2_frame *frame, nghttp2_rcbuf *name,
	nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
	const nghttp2_vec n = nghttp2_rcbuf_get_buf(name), v = nghttp2_rcbuf_get_buf(value);
	const uint32_t lens[2] = {(uint32_t)n.len, (uint32_t)v.len};
	struct h2_section *c = &((struct h2 *)arg)->section;
	const struct h2 *s = arg;

	(void)ng;
	(void)frame;
	if (c->too_large || c->n == H2_FIELDS_MAX ||
		buf_len(&c->text) + sizeof lens + n.len + v.len > s->limits.head) {
		c->too_large = true;
		return 0;
	}
	buf_add(&c->text, lens, sizeof lens);
	buf_add(&c->text, n.base, n.len + 1); /* nghttp2 has the NUL as well */
	buf_add(&c->text, v.base, v.len + 1);
	c->secret |= (flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0;
	c->n++;
	return 0;
}

static enum h2_part
h2_part_of(const struct h2_section *section)
{
	static const char name[] = ":status";
	struct h2_field f;
	size_t at = 0;

	if (!h2_section_next(section, &at, &f) || f.name.len != sizeof name - 1 ||
		memcmp(f.name.at, name, sizeof name - 1) != 0)
		return H2_TRAILERS;
	return f.value.len > 0 && f.value.at[0] == '1' ? H2_INTERIM : H2_RESPONSE;
}

static void
on_section(struct h2 *s, const nghttp2_frame *frame)
{
	int32_t id = frame->hd.stream_id;
	bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	void *stream;

	s->receiving = false;
	if (s->section.too_large)
		h2_spend(s, FRAME_BUDGET_LARGE_HEAD, "frames that carry nothing (large HEADERS)");
	if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
		frame_budget_stream(&s->budget);
		stream = s->events->request(s->arg, id, &s->section, last);
		if (stream != NULL)
			nghttp2_session_set_stream_user_data(h2_awake(s), id, stream);
	} else if ((stream = h2_stream(h2_awake(s), id)) != NULL && s->events->head != NULL) {
		s->events->head(s->arg, stream, h2_part_of(&s->section), &s->section, last);
	}
}

static int
on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2 *s = arg;
	void *stream;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		on_section(s, frame);
		break;
	case NGHTTP2_DATA:
		stream = h2_stream(ng, frame->hd.stream_id);
		if (stream != NULL && frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
			s->events->end != NULL)
			s->events->end(s->arg, stream);
		break;
	case NGHTTP2_RST_STREAM: /* rapid reset: CVE-2023-44487 */
		if (h2_stream(ng, frame->hd.stream_id) == NULL)
			break;
		s->counts.resets++;
		if (s->server)
			h2_spend(s, s->limits.reset, "streams that it resets");
		break;
	case NGHTTP2_SETTINGS:
		if (!s->settled && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
			s->settled = true;
			if (s->events->settings != NULL)
				s->events->settings(s->arg);
		}
		break;
	case NGHTTP2_GOAWAY:
		if (s->events->goaway != NULL)
			s->events->goaway(s->arg, frame->goaway.error_code);
		break;
	case NGHTTP2_PING:
		if (s->events->ping != NULL)
			s->events->ping(s->arg, frame->ping.opaque_data,
				frame->hd.flags & NGHTTP2_FLAG_ACK);
		break;
	default:
		stream = h2_stream(ng, frame->hd.stream_id);
		if (stream != NULL && frame->hd.type == s->limits.extension)
			s->events->extension(s->arg, stream, frame->hd.flags);
		break;
	}
	return 0;
}

/* Gives back what came in a window and is not held. In eighths: if half of it had to be consumed
 * first, as in nghttp2, a distant writer would get only half a window. Only nghttp2 knows how much
 * came since the window was last given back or made smaller: never return more than that, or it
 * takes the rest as a larger window, and the next reduction as a difference to make up for. */
static bool
h2_reopen(struct h2 *s, int32_t id, int32_t came, int32_t window, size_t held)
{
	size_t owed = (size_t)MAX(came, 0);

	owed -= MIN(owed, held);
	if (owed < MAX((size_t)MAX(window, 0) / H2_WINDOW_PART, (size_t)H2_WINDOW_STEP))
		return false;
	return nghttp2_submit_window_update(h2_awake(s), NGHTTP2_FLAG_NONE, id, (int32_t)owed) == 0;
}

static int
on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *arg)
{
	struct h2 *s = arg;
	void *stream = h2_stream(ng, id);

	(void)flags;
	h2_reopen(s, 0, nghttp2_session_get_effective_recv_data_length(ng),
		nghttp2_session_get_effective_local_window_size(ng), 0);
	if (stream != NULL)
		s->events->data(s->arg, stream, (const char *)data, len);
	else
		nghttp2_session_consume_stream(ng, id, len);
	return 0;
}

static int
on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *arg)
{
	struct h2 *s = arg;
	void *stream = h2_stream(ng, id);

	if (stream == NULL)
		return 0;
	nghttp2_session_set_stream_user_data(ng, id, NULL);
	s->events->closed(s->arg, stream, id == s->not_sent ? H2_REFUSED_STREAM : code);
	return 0;
}

/* The other end said GOAWAY after the request was given to us. */
static int
on_frame_not_sent(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *arg)
{
	struct h2 *s = arg;

	(void)ng;
	(void)error;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		s->not_sent = frame->hd.stream_id;
	return 0;
}

static int
on_bad_frame(nghttp2_session *ng, const nghttp2_frame *frame, int error, void *arg)
{
	struct h2 *s = arg;

	(void)ng;
	(void)frame;
	s->counts.refused += error == NGHTTP2_ERR_REFUSED_STREAM;
	snprintf(s->why, sizeof s->why, "%s", nghttp2_strerror(error));
	if (!s->server)
		h2_spend(s, H2_BAD_FRAME, "frames against the rules");
	return 0;
}

static int
on_bad_header(nghttp2_session *ng, const nghttp2_frame *frame, nghttp2_rcbuf *name,
	nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
	struct h2 *s = arg;

	(void)ng;
	(void)frame;
	(void)value;
	(void)flags;
	snprintf(s->why, sizeof s->why, "a field is not valid in HTTP/2: %.40s",
		(const char *)nghttp2_rcbuf_get_buf(name).base);
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* the message is malformed */
}

bool
h2_is_violation(uint32_t code)
{
	return code == NGHTTP2_PROTOCOL_ERROR || code == NGHTTP2_FLOW_CONTROL_ERROR ||
		code == NGHTTP2_STREAM_CLOSED || code == NGHTTP2_FRAME_SIZE_ERROR;
}

/* A client that breaks a rule in a stream makes us reset it, which is as cheap for it as to do so
 * itself (made you reset, CVE-2025-8671). */
static void
on_reset_sent(struct h2 *s, uint32_t code)
{
	if (s->server && h2_is_violation(code))
		h2_spend(s, H2_BAD_FRAME, "frames against the rules");
	else if (s->server && code == NGHTTP2_REFUSED_STREAM)
		h2_spend(s, MIN(s->limits.reset, 1u), "streams above the limit");
}

static ssize_t
h2_source(nghttp2_session *ng, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
	nghttp2_data_source *source, void *arg)
{
	struct h2 *s = arg;
	void *stream = h2_stream(ng, id);
	enum h2_rest rest = H2_MORE;
	const char *at;
	size_t n;

	(void)to;
	(void)source;
	if (stream == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	n = s->events->source(s->arg, stream, &at, &rest);
	s->half = rest == H2_HALF;
	s->drained = rest == H2_MORE && n <= size;
	if (n == 0 && rest == H2_MORE)
		return NGHTTP2_ERR_DEFERRED;
	*flags = NGHTTP2_DATA_FLAG_NO_COPY;
	if (n > size)
		return (ssize_t)size;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (rest == H2_THEN_TRAILERS || rest == H2_MORE)
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	if (rest == H2_THEN_TRAILERS)
		s->events->trailers(s->arg, stream);
	return (ssize_t)n;
}

/* More may have come between the making of a frame and its leaving. */
static void
h2_refill(struct h2 *s, int32_t id)
{
	void *stream = h2_stream(s->ng, id);
	enum h2_rest rest = H2_MORE;
	const char *at;

	s->drained = false;
	if (stream != NULL &&
		(s->events->source(s->arg, stream, &at, &rest) > 0 || rest != H2_MORE))
		h2_resume(s, id);
}

static int
on_frame_sent(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
	struct h2 *s = arg;

	if (frame->hd.type == NGHTTP2_RST_STREAM)
		on_reset_sent(s, frame->rst_stream.error_code);
	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		s->code = frame->goaway.error_code;
	if (frame->hd.type == NGHTTP2_DATA && s->drained)
		h2_refill(s, frame->hd.stream_id);
	/* A complete response: the rest of the request is of no use (RFC 9113 section 8.1). */
	if (s->server && frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
		((frame->hd.type == NGHTTP2_DATA && !s->half) ||
			frame->hd.type == NGHTTP2_HEADERS) &&
		nghttp2_session_get_stream_remote_close(ng, frame->hd.stream_id) == 0)
		h2_reset(s, frame->hd.stream_id, H2_NO_ERROR);
	return 0;
}

static int
h2_send_data(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *head, size_t len,
	nghttp2_data_source *source, void *arg)
{
	struct h2 *s = arg;
	void *stream = h2_stream(ng, frame->hd.stream_id);
	enum h2_rest rest;
	const char *at;

	(void)source;
	if (stream == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (s->events->send != NULL) {
		if (!s->events->send(s->arg, stream, head, len))
			return NGHTTP2_ERR_WOULDBLOCK;
		frame_budget_sent(&s->budget, len, s->drained);
		return 0;
	}
	if (buf_len(s->out) >= s->most)
		return NGHTTP2_ERR_WOULDBLOCK;
	if (s->events->source(s->arg, stream, &at, &rest) < len)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	buf_add(s->out, head, H2_FRAME_HEAD);
	buf_add(s->out, at, len);
	frame_budget_sent(&s->budget, len, s->drained);
	s->events->sent(s->arg, stream, len);
	return 0;
}

static ssize_t
h2_pack_extension(
	nghttp2_session *ng, uint8_t *to, size_t len, const nghttp2_frame *frame, void *arg)
{
	(void)ng;
	(void)to;
	(void)len;
	(void)frame;
	(void)arg;
	return 0;
}

/* A payload is passed over. */
static int
h2_unpack_extension(nghttp2_session *ng, void **payload, const nghttp2_frame_hd *hd, void *arg)
{
	(void)ng;
	(void)hd;
	(void)arg;
	*payload = NULL;
	return 0;
}

static nghttp2_session_callbacks *
h2_callbacks(void)
{
	nghttp2_session_callbacks *c;

	if (nghttp2_session_callbacks_new(&c) != 0)
		abort();
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback2(c, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback2(c, on_bad_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_bad_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_sent);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(c, on_frame_not_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
	nghttp2_session_callbacks_set_send_data_callback(c, h2_send_data);
	nghttp2_session_callbacks_set_pack_extension_callback(c, h2_pack_extension);
	nghttp2_session_callbacks_set_unpack_extension_callback(c, h2_unpack_extension);
	return c;
}

/* --- life ----------------------------------------------------------------------------------- */

static void
h2_make(struct h2 *s)
{
	nghttp2_session_callbacks *callbacks = h2_callbacks();
	nghttp2_option *option;
	int rc;

	if (nghttp2_option_new(&option) != 0)
		abort();
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	nghttp2_option_set_peer_max_concurrent_streams(option, s->limits.streams);
	nghttp2_option_set_max_outbound_ack(option, H2_ACKS_MAX);
	/* its own limit would say INTERNAL_ERROR */
	nghttp2_option_set_stream_reset_rate_limit(option, H2_UNLIMITED, H2_UNLIMITED);
	nghttp2_option_set_max_deflate_dynamic_table_size(option, s->limits.table);
	if (s->limits.extension != 0)
		nghttp2_option_set_user_recv_extension_type(option, s->limits.extension);
	session_memory_init(&s->memory);
	s->memory.making = true;
	rc = (s->server ? nghttp2_session_server_new3 : nghttp2_session_client_new3)(
		&s->ng, callbacks, s, option, &s->memory.calls);
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(option);
	if (rc != 0)
		abort(); /* out of memory */
}

struct h2 *
h2_new(const struct h2_setup *setup, uint64_t now_ms)
{
	struct h2 *s = xcalloc(1, sizeof *s);
	const struct h2_limits *l = &s->limits;
	nghttp2_settings_entry settings[4];
	size_t n = 0;

	s->events = setup->events;
	s->arg = setup->arg;
	s->server = setup->role == H2_SERVER;
	s->limits = setup->limits != NULL ? *setup->limits : proxy_limits;
	frame_budget_init(
		&s->budget, s->server ? NGHTTP2_CLIENT_MAGIC_LEN : 0, s->limits.head_free, now_ms);
	buf_init(&s->section.text, BUF_UNLIMITED);
	h2_make(s);
	settings[n++] = (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, l->head};
	/* a client takes no pushed streams; for them it has no limit to give */
	settings[n++] = s->server
		? (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, l->streams}
		: (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0};
	if (l->window != H2_WINDOW)
		settings[n++] =
			(nghttp2_settings_entry){NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, l->window};
	if (s->server && l->protocols)
		settings[n++] =
			(nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1};
	if (nghttp2_submit_settings(h2_awake(s), NGHTTP2_FLAG_NONE, settings, n) != 0)
		abort(); /* out of memory */
	h2_window(s, 0, H2_WINDOW_MAX);
	return s;
}

void
h2_free(struct h2 **out)
{
	struct h2 *s = take_ptr(out);

	if (s == NULL)
		return;
	nghttp2_session_del(h2_awake(s));
	buf_fini(&s->section.text);
	free(s);
}

static int
h2_cut(struct h2 *s, enum h2_code code)
{
	s->cut = true;
	s->code = code;
	nghttp2_session_terminate_session(h2_awake(s), code);
	return -EPROTO;
}

static int
h2_cut_flood(struct h2 *s, const char *what)
{
	snprintf(s->why, sizeof s->why, "too many %s", what);
	return h2_cut(s, H2_ENHANCE_YOUR_CALM);
}

int
h2_input(struct h2 *s, const void *bytes, size_t n, uint64_t now_ms)
{
	const char *kind =
		s->limits.trusted ? NULL : frame_budget_read(&s->budget, bytes, n, now_ms);
	char what[64];
	ssize_t took;

	if (s->cut)
		return -EPROTO;
	s->now_ms = now_ms;
	if (kind != NULL) {
		snprintf(what, sizeof what, "frames that carry nothing (%s)", kind);
		return h2_cut_flood(s, what);
	}
	took = nghttp2_session_mem_recv(h2_awake(s), bytes, n);
	if (took == NGHTTP2_ERR_FLOODED ||
		nghttp2_session_get_outbound_queue_size(h2_awake(s)) > s->limits.frames)
		return h2_cut_flood(s, "frames that it must answer for");
	if (took < 0) {
		snprintf(s->why, sizeof s->why, "%s", nghttp2_strerror((int)took));
		return h2_cut(s, H2_PROTOCOL_ERROR);
	}
	if (s->flood != NULL)
		return h2_cut_flood(s, s->flood);
	return s->cut ? -EPROTO : 0;
}

bool
h2_output(struct h2 *s, struct buf *out, size_t most)
{
	const uint8_t *bytes;
	ssize_t n = 0;

	s->out = out;
	s->most = most;
	while (buf_len(out) < most && (n = nghttp2_session_mem_send(h2_awake(s), &bytes)) > 0) {
		s->memory.used = true;
		buf_add(out, bytes, (size_t)n);
	}
	s->out = NULL;
	if (n < 0)
		s->cut = true;
	return n >= 0 && h2_wants_output(s);
}

const struct h2_counts *
h2_counts(struct h2 *s)
{
	s->counts.useless = s->budget.useless;
	return &s->counts;
}

void
h2_ping(struct h2 *s, const uint8_t payload[H2_PING_BYTES])
{
	nghttp2_submit_ping(h2_awake(s), NGHTTP2_FLAG_NONE, payload);
}

size_t
h2_held(const struct h2 *s)
{
	return session_memory_held(&s->memory) + s->section.text.size;
}

void
h2_rest(struct h2 *s)
{
	if (h2_wants_output(s) || s->receiving)
		return;
	buf_consume(&s->section.text, buf_len(&s->section.text));
	buf_release(&s->section.text);
	session_memory_idle(&s->memory);
}

bool
h2_wants_output(const struct h2 *s)
{
	return nghttp2_session_want_write(h2_awake(s)) != 0;
}

bool
h2_is_over(const struct h2 *s)
{
	return !h2_wants_output(s) && (s->cut || nghttp2_session_want_read(h2_awake(s)) == 0);
}

const char *
h2_why(const struct h2 *s)
{
	return s->why;
}

uint32_t
h2_code(const struct h2 *s)
{
	return s->code;
}

void
h2_drain(struct h2 *s)
{
	nghttp2_submit_shutdown_notice(h2_awake(s));
}

void
h2_goaway(struct h2 *s, enum h2_code code)
{
	nghttp2_submit_goaway(h2_awake(s), NGHTTP2_FLAG_NONE,
		nghttp2_session_get_last_proc_stream_id(h2_awake(s)), code, NULL, 0);
}

/* --- streams -------------------------------------------------------------------------------- */

uint32_t
h2_streams_max(const struct h2 *s)
{
	uint32_t most = nghttp2_session_get_remote_settings(
		h2_awake(s), NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	if (s->cut || nghttp2_session_check_request_allowed(h2_awake(s)) == 0)
		return 0;
	return s->settled ? MIN(most, s->limits.streams) : s->limits.streams;
}

bool
h2_is_used_up(const struct h2 *s)
{
	return nghttp2_session_get_next_stream_id(h2_awake(s)) > INT32_MAX;
}

bool
h2_takes_protocols(const struct h2 *s)
{
	return nghttp2_session_get_remote_settings(
		       h2_awake(s), NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1;
}

static size_t
h2_pairs(nghttp2_nv to[H2_FIELDS_MAX], const struct h2_fields *f)
{
	for (size_t i = 0; i < f->n; i++)
		to[i] = (nghttp2_nv){
			.name = (uint8_t *)(uintptr_t)f->list[i].name.at,
			.namelen = f->list[i].name.len,
			.value = (uint8_t *)(uintptr_t)f->list[i].value.at,
			.valuelen = f->list[i].value.len,
			.flags =
				f->list[i].secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE,
		};
	return f->n;
}

int32_t
h2_request(struct h2 *s, const struct h2_fields *f, bool last, void *stream)
{
	const nghttp2_data_provider source = {.read_callback = h2_source};
	nghttp2_nv pairs[H2_FIELDS_MAX];
	size_t n = h2_pairs(pairs, f);
	int32_t id =
		nghttp2_submit_request(h2_awake(s), NULL, pairs, n, last ? NULL : &source, stream);

	frame_budget_stream(&s->budget);
	return id < 0 ? -ESHUTDOWN : id;
}

void
h2_respond(struct h2 *s, int32_t id, const struct h2_fields *f, bool last)
{
	const nghttp2_data_provider source = {.read_callback = h2_source};
	nghttp2_nv pairs[H2_FIELDS_MAX];

	nghttp2_submit_response(h2_awake(s), id, pairs, h2_pairs(pairs, f), last ? NULL : &source);
}

void
h2_inform(struct h2 *s, int32_t id, const struct h2_fields *f)
{
	nghttp2_nv pairs[H2_FIELDS_MAX];

	nghttp2_submit_headers(
		h2_awake(s), NGHTTP2_FLAG_NONE, id, NULL, pairs, h2_pairs(pairs, f), NULL);
}

void
h2_trailers(struct h2 *s, int32_t id, const struct h2_fields *f)
{
	nghttp2_nv pairs[H2_FIELDS_MAX];

	nghttp2_submit_trailer(h2_awake(s), id, pairs, h2_pairs(pairs, f));
}

void
h2_resume(struct h2 *s, int32_t id)
{
	const nghttp2_data_provider source = {.read_callback = h2_source};

	if (nghttp2_session_resume_data(h2_awake(s), id) != 0)
		nghttp2_submit_data(h2_awake(s), NGHTTP2_FLAG_END_STREAM, id, &source);
}

void
h2_reset(struct h2 *s, int32_t id, uint32_t code)
{
	if (s->server && h2_is_violation(code)) /* on_reset_sent */
		code = H2_INTERNAL_ERROR;
	nghttp2_submit_rst_stream(h2_awake(s), NGHTTP2_FLAG_NONE, id, code);
}

bool
h2_is_sent(const struct h2 *s, int32_t id)
{
	return nghttp2_session_find_stream(h2_awake(s), id) != NULL;
}

void
h2_forget(struct h2 *s, int32_t id)
{
	nghttp2_session_set_stream_user_data(h2_awake(s), id, NULL);
}

void
h2_consume(struct h2 *s, int32_t id, size_t n)
{
	nghttp2_session_consume_stream(h2_awake(s), id, n);
}

bool
h2_hold(struct h2 *s, int32_t id, size_t held)
{
	return h2_reopen(s, id,
		nghttp2_session_get_stream_effective_recv_data_length(h2_awake(s), id),
		nghttp2_session_get_stream_effective_local_window_size(h2_awake(s), id), held);
}

void
h2_window(struct h2 *s, int32_t id, size_t n)
{
	nghttp2_session_set_local_window_size(h2_awake(s), NGHTTP2_FLAG_NONE, id, (int32_t)n);
}

int32_t
h2_room(const struct h2 *s, int32_t id)
{
	return id == 0 ? nghttp2_session_get_remote_window_size(h2_awake(s))
		       : nghttp2_session_get_stream_remote_window_size(h2_awake(s), id);
}

void
h2_send_extension(struct h2 *s, int32_t id, uint8_t flags)
{
	nghttp2_submit_extension(h2_awake(s), s->limits.extension, flags, id, NULL);
}
