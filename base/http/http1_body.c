/* Bodies of HTTP/1.x messages: length, chunks, until close. Not with llhttp, which accepts bare LF
 * in chunk lines; this parser accepts only the grammar of RFC 9112 section 7.1. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/http/http1.h"

enum state {
	RAW, /* left bytes of payload, or all of them until close */
	SIZE, /* digits of a chunk's size */
	SIZE_BWS, /* blanks after the size: only an extension may follow */
	EXT, /* chunk extension, outside quotes */
	EXT_QUOTED, /* inside a quoted string */
	EXT_ESCAPE, /* after a backslash in it */
	SIZE_LF,
	PAYLOAD,
	PAYLOAD_CR,
	PAYLOAD_LF,
	TRAILER_START, /* first byte of a trailer line, or the CR of the last */
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	END_LF,
	DONE,
};

enum { LINE_MAX_BYTES = 4096, SIZE_DIGITS = 15 }; /* 15 hex digits never overflow */

void
http1_body_init(struct http1_body *b, enum http1_framing framing, uint64_t length)
{
	memset(b, 0, sizeof *b);
	b->framing = (uint8_t)framing;
	b->left = framing == HTTP1_LENGTH ? length : 0;
	if (framing == HTTP1_CHUNKED)
		b->state = SIZE;
	else if (framing == HTTP1_EMPTY || (framing == HTTP1_LENGTH && length == 0))
		b->state = DONE;
	else
		b->state = RAW;
}

void
http1_body_keep(struct http1_body *b, struct buf *trailers)
{
	b->kept = trailers;
}

bool
http1_body_done(const struct http1_body *b)
{
	return b->state == DONE;
}

static enum http1_got
http1_body_take(
	struct http1_body *b, const char *data, size_t len, size_t *used, struct http1_str *piece)
{
	size_t n = b->framing == HTTP1_UNTIL_CLOSE ? len : (size_t)MIN((uint64_t)len, b->left);

	*used += n;
	if (n == 0)
		return HTTP1_MORE;
	*piece = (struct http1_str){data, n};
	if (b->framing == HTTP1_UNTIL_CLOSE)
		return HTTP1_DATA;
	b->left -= n;
	if (b->left == 0)
		b->state = b->framing == HTTP1_CHUNKED ? PAYLOAD_CR : DONE;
	return HTTP1_DATA;
}

uint64_t
http1_body_raw(const struct http1_body *b)
{
	return b->state == RAW && b->framing == HTTP1_LENGTH ? b->left : 0;
}

void
http1_body_skip(struct http1_body *b, uint64_t n)
{
	assert(n <= http1_body_raw(b));
	b->left -= n;
	if (b->left == 0)
		b->state = DONE;
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Next state after the size's digits and what follows them on the line; -1: violation. */
static int
step_size(struct http1_body *b, char c)
{
	int digit = hex_value(c);

	if (digit >= 0) {
		if (b->digits == SIZE_DIGITS)
			return -1;
		b->digits++;
		b->left = b->left << 4 | (uint64_t)digit;
		return SIZE;
	}
	if (b->digits == 0)
		return -1;
	if (c == ';')
		return EXT;
	if (c == ' ' || c == '\t')
		return SIZE_BWS;
	return c == '\r' ? SIZE_LF : -1;
}

/* Extensions are not forwarded, so only what could hide a line's end matters: controls and quotes.
 */
static int
step_extension(int state, char c)
{
	struct http1_str one = {&c, 1};

	if (state == SIZE_BWS)
		return c == ';' ? EXT : c == ' ' || c == '\t' ? SIZE_BWS : -1;
	if (state == EXT && c == '\r')
		return SIZE_LF;
	if (!http1_valid_value(one))
		return -1;
	if (state == EXT_ESCAPE)
		return EXT_QUOTED;
	if (state == EXT_QUOTED)
		return c == '"' ? EXT : c == '\\' ? EXT_ESCAPE : EXT_QUOTED;
	return c == '"' ? EXT_QUOTED : EXT;
}

static int
step_trailer(int state, char c)
{
	struct http1_str one = {&c, 1};

	switch (state) {
	case TRAILER_START:
		return c == '\r' ? END_LF : http1_token_char(c) ? TRAILER_NAME : -1;
	case TRAILER_NAME:
		return c == ':' ? TRAILER_VALUE : http1_token_char(c) ? TRAILER_NAME : -1;
	case TRAILER_VALUE:
		return c == '\r' ? TRAILER_LF : http1_valid_value(one) ? TRAILER_VALUE : -1;
	case TRAILER_LF:
		return c == '\n' ? TRAILER_START : -1;
	default: /* END_LF */
		return c == '\n' ? DONE : -1;
	}
}

/* Whole lines are kept, without the empty one at the end. */
static int
http1_body_keep_char(struct http1_body *b, char c, int next)
{
	if (b->kept != NULL && next >= 0 && next != END_LF && next != DONE)
		buf_add(b->kept, &c, 1);
	return next;
}

static int
end_of_size(struct http1_body *b)
{
	b->digits = 0;
	b->line = 0;
	return b->left > 0 ? PAYLOAD : TRAILER_START;
}

static int
http1_body_step(struct http1_body *b, char c)
{
	switch (b->state) {
	case SIZE:
		b->line++;
		return step_size(b, c);
	case SIZE_BWS:
	case EXT:
	case EXT_QUOTED:
	case EXT_ESCAPE:
		return ++b->line > LINE_MAX_BYTES ? -1 : step_extension(b->state, c);
	case SIZE_LF:
		return c == '\n' ? end_of_size(b) : -1;
	case PAYLOAD_CR:
		return c == '\r' ? PAYLOAD_LF : -1;
	case PAYLOAD_LF:
		return c == '\n' ? SIZE : -1;
	default:
		if (++b->trailers > HTTP1_TRAILERS_MAX)
			return -1;
		return http1_body_keep_char(b, c, step_trailer(b->state, c));
	}
}

enum http1_got
http1_body_next(
	struct http1_body *b, const char *data, size_t len, size_t *used, struct http1_str *piece)
{
	*used = 0;
	for (;;) {
		int next;

		if (b->state == DONE)
			return HTTP1_DONE;
		if (b->state == RAW || b->state == PAYLOAD)
			return http1_body_take(b, data + *used, len - *used, used, piece);
		if (*used == len)
			return HTTP1_MORE;
		next = http1_body_step(b, data[(*used)++]);
		if (next < 0)
			return HTTP1_BAD;
		b->state = (uint8_t)next;
	}
}

size_t
http1_chunk_head(char to[HTTP1_CHUNK_HEAD], size_t len)
{
	return (size_t)snprintf(to, HTTP1_CHUNK_HEAD, "%zx\r\n", len);
}

enum http1_got
http1_body_pass(struct http1_body *b, struct http1_str data, size_t *used, struct http1_str *piece,
	bool chunked, struct buf *to)
{
	enum http1_got got = http1_body_next(b, data.at, data.len, used, piece);
	char head[HTTP1_CHUNK_HEAD];
	struct http1_str last;

	if (got == HTTP1_DATA && chunked)
		buf_add(to, head, http1_chunk_head(head, piece->len));
	if (got == HTTP1_DATA)
		buf_add(to, piece->at, piece->len);
	if (got == HTTP1_DATA && chunked)
		buf_adds(to, HTTP1_CHUNK_TAIL);
	if (chunked && http1_body_done(b)) {
		last = http1_last_chunk(b);
		buf_add(to, last.at, last.len);
	}
	return got;
}
