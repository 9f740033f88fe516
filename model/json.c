#include "model/json.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void
json_init(struct json *j, const char *text, size_t len)
{
	*j = (struct json){.start = text, .at = text, .end = text + len};
}

bool
json_ok(const struct json *j)
{
	return j->wrong[0] == '\0';
}

bool
json_wrong(struct json *j, const char *fmt, ...)
{
	va_list ap;

	if (!json_ok(j))
		return false;
	va_start(ap, fmt);
	vsnprintf(j->wrong, sizeof j->wrong, fmt, ap);
	va_end(ap);
	return false;
}

static void
skip_space(struct json *j)
{
	while (j->at < j->end &&
		(*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t'))
		j->at++;
}

int
json_finish(struct json *j, struct err *err)
{
	skip_space(j);
	if (json_ok(j) && j->at != j->end)
		json_wrong(j, "text after the value");
	if (json_ok(j))
		return 0;
	return err_set(err, EBADMSG, "byte %zu: %s", (size_t)(j->at - j->start), j->wrong);
}

char
json_peek(struct json *j)
{
	if (!json_ok(j))
		return 0;
	skip_space(j);
	if (j->at == j->end)
		return 0;
	return (*j->at >= '0' && *j->at <= '9') || *j->at == '-' ? '0' : *j->at;
}

static bool
take(struct json *j, char c, const char *what)
{
	if (json_peek(j) == 0 || *j->at != c)
		return json_wrong(j, "%s expected", what);
	j->at++;
	return true;
}

bool
json_open(struct json *j, char bracket)
{
	if (!take(j, bracket, bracket == '{' ? "an object" : "a list"))
		return false;
	if (j->depth == JSON_DEPTH_MAX)
		return json_wrong(j, "nested too deeply");
	j->depth++;
	j->begun &= ~(UINT64_C(1) << j->depth);
	return true;
}

/* Is there another element? Eats the comma before it, or the closing bracket. */
static bool
more(struct json *j, char close)
{
	uint64_t bit = UINT64_C(1) << j->depth;

	if (json_peek(j) == 0)
		return json_wrong(j, "the text ends too early");
	if (*j->at == close) {
		j->at++;
		j->depth--;
		return false;
	}
	if ((j->begun & bit) != 0 && !take(j, ',', "a comma"))
		return false;
	j->begun |= bit;
	return true;
}

bool
json_item(struct json *j)
{
	return more(j, ']');
}

/* Length of the UTF-8 sequence at p (RFC 3629), 0 when it is none. */
static size_t
utf8_len(const unsigned char *p, size_t left)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (left < n)
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0; /* overlong */
	else if (p[0] == 0xed)
		high = 0x9f; /* surrogates */
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f; /* beyond U+10FFFF */
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return n;
}

static size_t
utf8_put(char to[4], uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

static bool
hex4(struct json *j, uint32_t *v)
{
	*v = 0;
	for (int i = 0; i < 4; i++, j->at++) {
		char c = j->at < j->end ? *j->at : 0;

		if (c >= '0' && c <= '9')
			*v = *v << 4 | (uint32_t)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			*v = *v << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
		else
			return json_wrong(j, "four hexadecimal digits expected");
	}
	return true;
}

/* What stands behind a backslash, as UTF-8; returns its length, 0 on error. */
static size_t
escape(struct json *j, char to[4])
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	uint32_t c, low;
	const char *name;

	if (j->at == j->end)
		return json_wrong(j, "the text ends in a string");
	if (*j->at != 'u') {
		if (*j->at == '\0' || (name = strchr(names, *j->at)) == NULL)
			return json_wrong(j, "unknown escape in a string");
		j->at++;
		to[0] = values[name - names];
		return 1;
	}
	j->at++;
	if (!hex4(j, &c))
		return 0;
	if (c >= 0xd800 && c < 0xdc00) {
		if (j->end - j->at < 6 || j->at[0] != '\\' || j->at[1] != 'u')
			return json_wrong(j, "half a surrogate pair");
		j->at += 2;
		if (!hex4(j, &low))
			return 0;
		if (low < 0xdc00 || low > 0xdfff)
			return json_wrong(j, "half a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	} else if (c >= 0xdc00 && c < 0xe000) {
		return json_wrong(j, "half a surrogate pair");
	}
	return utf8_put(to, c);
}

/* A string, decoded to `to` (NULL: only checked); its decoded length. *nul: it holds U+0000. */
static size_t
string(struct json *j, char *to, bool *nul)
{
	size_t len = 0;

	*nul = false;
	if (!take(j, '"', "a string"))
		return 0;
	while (j->at < j->end && *j->at != '"') {
		char four[4] = "";
		const char *from = four;
		size_t n;

		if (*j->at == '\\') {
			j->at++;
			if ((n = escape(j, four)) == 0)
				return 0;
		} else if ((unsigned char)*j->at < 0x20) {
			return json_wrong(j, "control character in a string");
		} else {
			from = j->at;
			n = utf8_len((const unsigned char *)from, (size_t)(j->end - from));
			if (n == 0)
				return json_wrong(j, "string is not UTF-8");
			j->at += n;
		}
		*nul |= *from == '\0';
		if (to != NULL)
			memcpy(to + len, from, n);
		len += n;
	}
	if (j->at == j->end)
		return json_wrong(j, "the text ends in a string");
	j->at++;
	return len;
}

bool
json_text(struct json *j, char **text, size_t max)
{
	const char *begin;
	size_t len;
	bool nul;

	json_peek(j);
	begin = j->at;
	len = string(j, NULL, &nul);
	if (!json_ok(j))
		return false;
	if (len > max)
		return json_wrong(j, "string of %zu bytes, at most %zu are allowed", len, max);
	if (nul)
		return json_wrong(j, "NUL in a string");
	j->at = begin;
	*text = xmalloc(len + 1);
	string(j, *text, &nul);
	(*text)[len] = '\0';
	return true;
}

bool
json_member(struct json *j)
{
	const char *begin;
	size_t len;
	bool nul;

	if (!json_ok(j) || !more(j, '}'))
		return false;
	json_peek(j);
	begin = j->at;
	len = string(j, NULL, &nul);
	if (!json_ok(j))
		return false;
	if (len > JSON_KEY_MAX || nul)
		return json_wrong(j, "member name too long or with NUL");
	j->at = begin;
	string(j, j->key, &nul);
	j->key[len] = '\0';
	return take(j, ':', "a colon");
}

static bool
digits(struct json *j)
{
	if (j->at == j->end || *j->at < '0' || *j->at > '9')
		return json_wrong(j, "digit expected");
	while (j->at < j->end && *j->at >= '0' && *j->at <= '9')
		j->at++;
	return true;
}

static bool
number(struct json *j)
{
	if (*j->at == '-')
		j->at++;
	if (j->at < j->end && *j->at == '0')
		j->at++;
	else if (!digits(j))
		return false;
	if (j->at < j->end && *j->at == '.') {
		j->at++;
		if (!digits(j))
			return false;
	}
	if (j->at < j->end && (*j->at | 0x20) == 'e') {
		j->at++;
		if (j->at < j->end && (*j->at == '+' || *j->at == '-'))
			j->at++;
		return digits(j);
	}
	return true;
}

bool
json_uint(struct json *j, uint64_t max, uint64_t *v)
{
	const char *p;

	if (json_peek(j) != '0')
		return json_wrong(j, "a number expected");
	p = j->at;
	if (!number(j))
		return false;
	*v = 0;
	for (; p < j->at; p++) {
		unsigned digit = (unsigned)(*p - '0');

		if (digit > 9)
			return json_wrong(j, "a whole number, not negative, expected");
		if (*v > (max - MIN(max, digit)) / 10 || *v * 10 + digit > max)
			return json_wrong(j, "number greater than %llu", (unsigned long long)max);
		*v = *v * 10 + digit;
	}
	return true;
}

static bool
word(struct json *j, const char *text)
{
	size_t len = strlen(text);

	if (json_peek(j) == 0 || (size_t)(j->end - j->at) < len || memcmp(j->at, text, len) != 0)
		return json_wrong(j, "a value expected");
	j->at += len;
	return true;
}

bool
json_bool(struct json *j, bool *v)
{
	char c = json_peek(j);

	if (c != 't' && c != 'f')
		return json_wrong(j, "true or false expected");
	*v = c == 't';
	return word(j, *v ? "true" : "false");
}

/* Recursion is bounded by JSON_DEPTH_MAX, which json_open holds. */
static bool
skip(struct json *j)
{
	bool nul;

	switch (json_peek(j)) {
	case '{':
		json_open(j, '{');
		while (json_ok(j) && more(j, '}')) {
			string(j, NULL, &nul);
			take(j, ':', "a colon");
			skip(j);
		}
		return json_ok(j);
	case '[':
		json_open(j, '[');
		while (json_ok(j) && more(j, ']'))
			skip(j);
		return json_ok(j);
	case '"':
		string(j, NULL, &nul);
		return json_ok(j);
	case '0':
		return number(j);
	case 't':
		return word(j, "true");
	case 'f':
		return word(j, "false");
	default:
		return word(j, "null");
	}
}

bool
json_raw(struct json *j, const char **at, size_t *len)
{
	const char *begin;

	json_peek(j);
	begin = j->at;
	if (!json_ok(j) || !skip(j))
		return false;
	if (at != NULL)
		*at = begin;
	if (len != NULL)
		*len = (size_t)(j->at - begin);
	return true;
}

static void
text_field(struct json *j, const struct field *f, char **to)
{
	auto_free char *text = NULL;

	if (!json_text(j, &text, f->max))
		return;
	if (f->check != NULL && !f->check(text, strlen(text))) {
		json_wrong(j, "%s: '%.60s' is not allowed", f->name, text);
		return;
	}
	free(*to);
	*to = take_ptr(&text);
}

static void
field_value(struct json *j, const struct field *f, void *to)
{
	void *at = (char *)to + f->offset;
	uint64_t v = 0;

	if (f->kind >= FIELD_UINT8 && f->kind <= FIELD_UINT64 && !json_uint(j, f->max, &v))
		return;
	switch (f->kind) {
	case FIELD_TEXT:
		text_field(j, f, at);
		break;
	case FIELD_UINT8:
		*(uint8_t *)at = (uint8_t)v;
		break;
	case FIELD_UINT16:
		*(uint16_t *)at = (uint16_t)v;
		break;
	case FIELD_UINT32:
		*(uint32_t *)at = (uint32_t)v;
		break;
	case FIELD_UINT64:
		*(uint64_t *)at = v;
		break;
	case FIELD_BOOL:
		json_bool(j, at);
		break;
	case FIELD_CUSTOM:
		f->custom(j, to);
		break;
	}
}

void
json_fields(struct json *j, const struct field *fields, size_t n, void *to)
{
	uint64_t seen = 0;

	assert(n <= 64);
	if (!json_open(j, '{'))
		return;
	while (json_member(j)) {
		size_t i = 0;

		while (i < n && strcmp(fields[i].name, j->key) != 0)
			i++;
		if (i == n || json_peek(j) == 'n') {
			json_raw(j, NULL, NULL);
			continue;
		}
		if ((seen & UINT64_C(1) << i) != 0) {
			json_wrong(j, "member %s twice", fields[i].name);
			return;
		}
		seen |= UINT64_C(1) << i;
		field_value(j, &fields[i], to);
	}
}

void
json_add_text(struct buf *out, const char *text)
{
	const unsigned char *p = (const unsigned char *)(text != NULL ? text : "");
	size_t left = strlen((const char *)p), n;

	buf_add(out, "\"", 1);
	for (; left > 0; p += n, left -= n) {
		n = utf8_len(p, left);
		if (n == 0) {
			n = 1;
			buf_adds(out, "\\ufffd");
		} else if (*p == '"' || *p == '\\') {
			buf_printf(out, "\\%c", *p);
		} else if (*p < 0x20) {
			buf_printf(out, "\\u%04x", *p);
		} else {
			buf_add(out, p, n);
		}
	}
	buf_add(out, "\"", 1);
}
