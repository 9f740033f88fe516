#include "hub/kube/json_stream.h"

#include <errno.h>

static const char items[] = "items";

void
json_stream_init(struct json_stream *s, enum json_stream_mode mode, json_stream_fn *fn, void *arg)
{
	*s = (struct json_stream){
		.mode = mode, .fn = fn, .arg = arg, .value_max = JSON_STREAM_VALUE_MAX};
	buf_init(&s->value, BUF_UNLIMITED);
	buf_init(&s->rest, JSON_STREAM_REST_MAX);
}

void
json_stream_fini(struct json_stream *s)
{
	buf_fini(&s->value);
	buf_fini(&s->rest);
}

bool
json_stream_whole(const struct json_stream *s)
{
	return s->depth == 0 && (s->mode == JSON_STREAM_STREAM || s->ended);
}

const char *
json_stream_rest(struct json_stream *s, size_t *len)
{
	*len = buf_len(&s->rest);
	return buf_str(&s->rest);
}

/* Stores the bytes from `from` to `to` where they belong: in the current value, in the rest, or
 * nowhere. */
static int
json_stream_keep(struct json_stream *s, const char *from, const char *to)
{
	size_t n = (size_t)(to - from);

	if (n == 0 || s->deep > 0)
		return 0;
	if (s->in_value) {
		if (s->too_large || buf_len(&s->value) + n > s->value_max) {
			s->too_large = true;
			buf_consume(&s->value, buf_len(&s->value));
			buf_release(&s->value);
			return 0;
		}
		return buf_add(&s->value, from, n);
	}
	if (s->mode == JSON_STREAM_LIST && !s->in_items && buf_add(&s->rest, from, n) < 0)
		return -EBADMSG;
	return 0;
}

static void
json_stream_replace_nul(char *text, size_t len)
{
	char *end = text + len;

	for (char *at = text; at < end; at += 2) {
		at = memchr(at, '\\', (size_t)(end - at));
		if (at == NULL)
			return;
		if (end - at > 6 && memcmp(at + 1, "u0000", 5) == 0)
			memcpy(at + 1, "ufffd", 5);
	}
}

static int
json_stream_give(struct json_stream *s)
{
	bool too_large = s->too_large;
	int rc;

	s->in_value = s->too_large = false;
	if (too_large)
		return s->fn(s->arg, NULL, 0);
	json_stream_replace_nul(buf_at(&s->value), buf_len(&s->value));
	/* Includes the NUL, without which buf_str would move the buffer. */
	rc = s->fn(s->arg, buf_str(&s->value), buf_len(&s->value));
	buf_consume(&s->value, buf_len(&s->value));
	return rc;
}

/* Returns true if this bracket starts a value of its own. */
static bool
begins_value(const struct json_stream *s, char c)
{
	if (s->mode == JSON_STREAM_STREAM)
		return s->depth == 0 && c == '{';
	return s->in_items && s->depth == 2 && c == '{';
}

static bool
opens_items(const struct json_stream *s, char c)
{
	return s->mode == JSON_STREAM_LIST && c == '[' && s->depth == 1 &&
		s->word_len == sizeof items - 1 && memcmp(s->word, items, s->word_len) == 0;
}

/* The bytes before *from are stored already; stores more and moves *from if what follows belongs
 * elsewhere. */
static int
open_bracket(struct json_stream *s, const char *at, const char **from)
{
	int rc = 0;

	if (s->ended || (s->depth == JSON_STREAM_DEPTH_MAX && !s->in_value) ||
		(s->depth == 0 && *at != '{') || (s->in_items && s->depth == 2 && *at != '{'))
		return -EBADMSG;
	if (s->in_value && s->depth == JSON_STREAM_DEPTH_KEPT && s->deep == 0) {
		rc = json_stream_keep(s, *from, at + 1);
		s->deep = s->depth;
	} else if (begins_value(s, *at)) {
		rc = json_stream_keep(s, *from, at);
		*from = at;
		s->in_value = true;
	} else if (opens_items(s, *at)) {
		rc = json_stream_keep(s, *from, at + 1);
		*from = at + 1;
		s->in_items = true;
	}
	s->depth++;
	return rc;
}

static int
close_bracket(struct json_stream *s, const char *at, const char **from)
{
	int rc;

	if (s->depth == 0)
		return -EBADMSG;
	s->depth--;
	if (s->deep > 0 && s->depth == s->deep) {
		s->deep = 0;
		*from = at;
	}
	if (s->in_value && s->depth == (s->mode == JSON_STREAM_STREAM ? 0 : 2)) {
		rc = json_stream_keep(s, *from, at + 1);
		*from = at + 1;
		return rc < 0 ? rc : json_stream_give(s);
	}
	if (s->in_items && s->depth == 1) {
		*from = at;
		s->in_items = false;
	}
	s->ended = s->mode == JSON_STREAM_LIST && s->depth == 0;
	return 0;
}

static void
string_byte(struct json_stream *s, char c)
{
	if (s->escaped)
		s->escaped = false;
	else if (c == '\\')
		s->escaped = true;
	else if (c == '"')
		s->in_string = false;
	if (s->in_string && s->depth == 1) {
		if (s->word_len < sizeof s->word)
			s->word[s->word_len] = c;
		s->word_len += s->word_len < sizeof s->word;
	}
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static int
plain_byte(struct json_stream *s, const char *at, const char **from)
{
	switch (*at) {
	case '{':
	case '[':
		return open_bracket(s, at, from);
	case '}':
	case ']':
		return close_bracket(s, at, from);
	case '"':
		s->in_string = true;
		s->word_len = 0;
		break;
	default:
		break;
	}
	/* Only blanks may be between values, and commas between the elements of the list. */
	if (s->depth == 0 && !is_blank(*at))
		return -EBADMSG;
	if (s->in_items && s->depth == 2 && !is_blank(*at) && *at != ',')
		return -EBADMSG;
	return 0;
}

int
json_stream_feed(struct json_stream *s, const char *data, size_t len)
{
	const char *from = data, *end = data + len;
	int rc = 0;

	for (const char *at = data; at < end && rc == 0; at++) {
		if (s->in_string)
			string_byte(s, *at);
		else
			rc = plain_byte(s, at, &from);
	}
	return rc != 0 ? rc : json_stream_keep(s, from, end);
}
