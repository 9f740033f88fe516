#include "base/http/h2_preface.h"

#include <stdio.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

enum {
	PREFACE = 24,
	FRAME_MAX = 16384, /* SETTINGS_MAX_FRAME_SIZE until a peer announces more */
	FIELDS_MAX = 256,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_UNAVAILABLE = 14,
};

/* RFC 9113 section 4.1 */
struct frame {
	size_t len;
	uint8_t type, flags;
	uint32_t stream;
	const uint8_t *payload;
};

static uint32_t
h2_preface_read32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads the frame at `at`. False: it is incomplete. */
static bool
next_frame(const uint8_t *bytes, size_t n, size_t at, struct frame *f)
{
	if (n - at < H2_PREFACE_FRAME_HEAD)
		return false;
	bytes += at;
	f->len = (size_t)bytes[0] << 16 | (size_t)bytes[1] << 8 | bytes[2];
	f->type = bytes[3];
	f->flags = bytes[4];
	f->stream = h2_preface_read32(bytes + 5) & 0x7fffffff;
	f->payload = bytes + H2_PREFACE_FRAME_HEAD;
	return f->len <= n - at - H2_PREFACE_FRAME_HEAD;
}

/* True if a frame longer than allowed begins there. */
static bool
too_long(const uint8_t *bytes, size_t n, size_t at)
{
	return n - at >= 3 &&
		((size_t)bytes[at] << 16 | (size_t)bytes[at + 1] << 8 | bytes[at + 2]) > FRAME_MAX;
}

/* Section 6.2: strips padding and priority, leaving the header block. */
static bool
strip_headers(struct frame *f)
{
	size_t pad = 0;

	if (f->flags & NGHTTP2_FLAG_PADDED) {
		if (f->len < 1)
			return false;
		pad = f->payload[0];
		f->payload++;
		f->len--;
	}
	if (f->flags & NGHTTP2_FLAG_PRIORITY) {
		if (f->len < 5)
			return false;
		f->payload += 5;
		f->len -= 5;
	}
	if (pad > f->len)
		return false;
	f->len -= pad;
	return true;
}

static bool
take_authority(struct h2_preface *o, const nghttp2_nv *nv)
{
	if (nv->namelen != 10 || memcmp(nv->name, ":authority", 10) != 0)
		return true;
	if (nv->valuelen > H2_PREFACE_AUTHORITY_MAX || o->authority[0] != '\0')
		return false;
	for (size_t i = 0; i < nv->valuelen; i++)
		if (nv->value[i] <= ' ' || nv->value[i] > '~')
			return false;
	memcpy(o->authority, nv->value, nv->valuelen);
	o->authority[nv->valuelen] = '\0';
	return true;
}

static bool
h2_preface_inflate(struct h2_preface *o, const struct buf *block)
{
	const uint8_t *at = (const uint8_t *)buf_at(block);
	size_t left = buf_len(block);
	nghttp2_hd_inflater *hd = NULL;
	int flags = 0;
	bool ok = nghttp2_hd_inflate_new(&hd) == 0;

	for (unsigned fields = 0; ok && !(flags & NGHTTP2_HD_INFLATE_FINAL); fields++) {
		nghttp2_nv nv;
		ssize_t used = nghttp2_hd_inflate_hd2(hd, &nv, &flags, at, left, 1);

		ok = used >= 0 && fields < FIELDS_MAX && (used > 0 || flags != 0);
		if (ok && (flags & NGHTTP2_HD_INFLATE_EMIT))
			ok = take_authority(o, &nv);
		if (ok) {
			at += used;
			left -= (size_t)used;
		}
	}
	if (hd != NULL)
		nghttp2_hd_inflate_del(hd);
	return ok;
}

/* Puts the first request's header block together, whose last frame ends at `end`, and reads it. */
static bool
take_fields(struct h2_preface *o, const uint8_t *bytes, size_t end)
{
	auto_buf struct buf block = {.limit = H2_PREFACE_HEAD_MAX};
	struct frame f;

	for (size_t at = o->head_at; next_frame(bytes, end, at, &f);) {
		at += H2_PREFACE_FRAME_HEAD + f.len;
		if ((f.type == NGHTTP2_HEADERS && !strip_headers(&f)) ||
			buf_add(&block, f.payload, f.len) < 0)
			return false;
	}
	return h2_preface_inflate(o, &block);
}

/* Takes a HEADERS or CONTINUATION frame of the first request, which begins at o->at. */
static bool
add_fields(struct h2_preface *o, const uint8_t *bytes, const struct frame *f)
{
	if (f->type == NGHTTP2_HEADERS) {
		if (o->stream != 0 || (f->stream & 1) == 0)
			return false;
		o->stream = f->stream;
		o->head_at = o->at;
	} else if (o->stream == 0 || f->stream != o->stream) {
		return false;
	}
	if ((f->flags & NGHTTP2_FLAG_END_HEADERS) == 0)
		return true;
	o->whole = take_fields(o, bytes, o->at + H2_PREFACE_FRAME_HEAD + f->len);
	return o->whole;
}

/* Reads the frames after the preface that are complete now and were not before. */
static enum h2_preface_state
read_frames(const uint8_t *bytes, size_t n, struct h2_preface *o)
{
	struct frame f;

	while (next_frame(bytes, n, o->at, &f)) {
		bool ack = f.type == NGHTTP2_SETTINGS && (f.flags & NGHTTP2_FLAG_ACK) != 0;

		if (f.len > FRAME_MAX ||
			(o->at == PREFACE && (f.type != NGHTTP2_SETTINGS || ack)) ||
			(ack && f.len != 0) ||
			(o->stream != 0 && !o->whole && f.type != NGHTTP2_CONTINUATION))
			return H2_PREFACE_BAD;
		if (ack && o->ack_at == 0)
			o->ack_at = o->at;
		if (!o->whole && (f.type == NGHTTP2_HEADERS || f.type == NGHTTP2_CONTINUATION) &&
			!add_fields(o, bytes, &f))
			return H2_PREFACE_BAD;
		o->at += H2_PREFACE_FRAME_HEAD + f.len;
	}
	if (o->whole)
		return H2_PREFACE_ASKED;
	if (too_long(bytes, n, o->at))
		return H2_PREFACE_BAD;
	return o->at > PREFACE && o->stream == 0 ? H2_PREFACE_WAITS : H2_PREFACE_MORE;
}

enum h2_preface_state
h2_preface_read(const void *bytes, size_t n, struct h2_preface *o)
{
	if (n == 0)
		return H2_PREFACE_MORE;
	if (o->at == 0 && memcmp(bytes, NGHTTP2_CLIENT_MAGIC, MIN(n, (size_t)PREFACE)) != 0)
		return H2_PREFACE_NONE;
	if (n < PREFACE)
		return H2_PREFACE_MORE;
	o->at = MAX(o->at, (size_t)PREFACE);
	return read_frames(bytes, n, o);
}

/* --- answering ------------------------------------------------------------------------------ */

static void
add_frame(
	struct buf *to, uint8_t type, uint8_t flags, uint32_t stream, const void *payload, size_t n)
{
	const uint8_t head[H2_PREFACE_FRAME_HEAD] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8),
		(uint8_t)n, type, flags, (uint8_t)(stream >> 24), (uint8_t)(stream >> 16),
		(uint8_t)(stream >> 8), (uint8_t)stream};

	buf_add(to, head, sizeof head);
	if (n > 0)
		buf_add(to, payload, n);
}

void
h2_preface_settings(struct buf *to)
{
	add_frame(to, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

/* RFC 7541 section 6.2.2: a literal that is not indexed; name and value are shorter than 127. */
static void
add_field(struct buf *to, const char *name, const char *value)
{
	const uint8_t literal = 0, name_len = (uint8_t)strlen(name),
		      value_len = (uint8_t)MIN(strlen(value), (size_t)126);

	buf_add(to, &literal, 1);
	buf_add(to, &name_len, 1);
	buf_add(to, name, name_len);
	buf_add(to, &value_len, 1);
	buf_add(to, value, value_len);
}

static unsigned
grpc_status(unsigned status)
{
	switch (status) {
	case 400:
		return GRPC_INVALID_ARGUMENT;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_NOT_FOUND;
	case 429:
		return GRPC_RESOURCE_EXHAUSTED;
	case 504:
		return GRPC_DEADLINE_EXCEEDED;
	default:
		return GRPC_UNAVAILABLE;
	}
}

void
h2_preface_refuse(
	struct buf *to, uint32_t stream, unsigned status, const char *reason, bool settings)
{
	const uint8_t goaway[8] = {(uint8_t)(stream >> 24), (uint8_t)(stream >> 16),
		(uint8_t)(stream >> 8), (uint8_t)stream};
	char digits[12];
	struct buf fields;

	if (settings)
		h2_preface_settings(to);
	add_frame(to, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
	if (stream != 0) {
		buf_init(&fields, BUF_UNLIMITED);
		snprintf(digits, sizeof digits, "%u", status);
		add_field(&fields, ":status", digits);
		add_field(&fields, "content-type", "application/grpc");
		snprintf(digits, sizeof digits, "%u", grpc_status(status));
		add_field(&fields, "grpc-status", digits);
		add_field(&fields, "grpc-message", reason);
		add_frame(to, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM,
			stream, buf_at(&fields), buf_len(&fields));
		buf_fini(&fields);
	}
	add_frame(to, NGHTTP2_GOAWAY, 0, 0, goaway, sizeof goaway);
}
