#include "model/json_private.h"

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
size_t
json_string(struct json *j, char *to, bool *nul)
{
	size_t len = 0;

	*nul = false;
	if (!json_take(j, '"', "a string"))
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
	len = json_string(j, NULL, &nul);
	if (!json_ok(j))
		return false;
	if (len > max)
		return json_wrong(j, "string of %zu bytes, at most %zu are allowed", len, max);
	if (nul)
		return json_wrong(j, "NUL in a string");
	j->at = begin;
	*text = xmalloc(len + 1);
	json_string(j, *text, &nul);
	(*text)[len] = '\0';
	return true;
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
