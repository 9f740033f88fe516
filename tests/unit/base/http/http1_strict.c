#include "tests/unit/base/http/http1_strict.h"

#include <string.h>

static bool
is_token(struct strict_part p)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < p.len; i++) {
		char c = p.at[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			    (c != '\0' && strchr(others, c) != NULL)))
			return false;
	}
	return p.len > 0;
}

/* Visible characters and obs-text; with `blanks` SP and HTAB as well. */
static bool
is_text(struct strict_part p, bool blanks)
{
	for (size_t i = 0; i < p.len; i++) {
		unsigned char c = (unsigned char)p.at[i];

		if (c == 0x7f || c < 0x20 ? !(blanks && c == '\t') : c == ' ' && !blanks)
			return false;
	}
	return true;
}

/* The line at *at, without its CRLF; *at goes behind it. A CR or LF of its own violates. */
static bool
next_line(const char **at, const char *end, struct strict_part *line)
{
	const char *p = *at;

	while (p < end && *p != '\r' && *p != '\n')
		p++;
	if (end - p < 2 || p[0] != '\r' || p[1] != '\n')
		return false;
	*line = (struct strict_part){*at, (size_t)(p - *at)};
	*at = p + 2;
	return true;
}

/* Up to the first SP, which is passed; the rest is left in *from. */
static struct strict_part
next_word(struct strict_part *from)
{
	struct strict_part word = {from->at, 0};

	while (word.len < from->len && from->at[word.len] != ' ')
		word.len++;
	from->at += word.len + (word.len < from->len);
	from->len -= word.len + (word.len < from->len);
	return word;
}

static bool
is_version(struct strict_part p)
{
	return p.len == 8 && memcmp(p.at, "HTTP/1.", 7) == 0 && (p.at[7] == '0' || p.at[7] == '1');
}

static bool
first_line(struct strict_head *h, struct strict_part line, bool request)
{
	h->line[0] = next_word(&line);
	h->line[1] = next_word(&line);
	h->line[2] = line;
	if (request)
		return is_token(h->line[0]) && h->line[1].len > 0 && is_text(h->line[1], false) &&
			is_version(h->line[2]);
	if (h->line[1].len != 3)
		return false;
	for (int i = 0; i < 3; i++)
		if (h->line[1].at[i] < '0' || h->line[1].at[i] > '9')
			return false;
	return is_version(h->line[0]) && is_text(h->line[2], true);
}

static struct strict_part
trim(struct strict_part p)
{
	while (p.len > 0 && (p.at[0] == ' ' || p.at[0] == '\t')) {
		p.at++;
		p.len--;
	}
	while (p.len > 0 && (p.at[p.len - 1] == ' ' || p.at[p.len - 1] == '\t'))
		p.len--;
	return p;
}

static bool
split_field(struct strict_part line, struct strict_part *name, struct strict_part *value)
{
	const char *colon = memchr(line.at, ':', line.len);

	if (colon == NULL)
		return false;
	*name = (struct strict_part){line.at, (size_t)(colon - line.at)};
	*value = trim((struct strict_part){colon + 1, line.len - name->len - 1});
	return is_token(*name) && is_text(*value, true);
}

bool
strict_head(struct strict_head *h, const char *data, size_t len, bool request)
{
	const char *at = data, *end = data + len;
	struct strict_part line;

	h->n = 0;
	if (!next_line(&at, end, &line) || !first_line(h, line, request))
		return false;
	while (next_line(&at, end, &line)) {
		if (line.len == 0)
			return at == end;
		if (h->n == STRICT_FIELDS || !split_field(line, &h->names[h->n], &h->values[h->n]))
			return false;
		h->n++;
	}
	return false;
}

static int
hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c != '\0' ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;

	return at != NULL ? (int)(at - digits) : -1;
}

/* 1*HEXDIG, and of an extension at least that it has no control in it. */
static bool
chunk_size(struct strict_part line, uint64_t *size)
{
	size_t i = 0;

	*size = 0;
	for (; i < line.len && hex_digit(line.at[i]) >= 0; i++) {
		if (*size >> 59 != 0)
			return false;
		*size = *size * 16 + (uint64_t)hex_digit(line.at[i]);
	}
	if (i == 0)
		return false;
	line = trim((struct strict_part){line.at + i, line.len - i});
	return line.len == 0 || (line.at[0] == ';' && is_text(line, true));
}

size_t
strict_chunks(const char *data, size_t len, struct buf *out)
{
	const char *at = data, *end = data + len;
	struct strict_part line, name, value;
	uint64_t size;

	do {
		if (!next_line(&at, end, &line) || !chunk_size(line, &size))
			return 0;
		if (size > 0 &&
			((uint64_t)(end - at) < size + 2 || at[size] != '\r' ||
				at[size + 1] != '\n'))
			return 0;
		buf_add(out, at, (size_t)size);
		at += size > 0 ? size + 2 : 0;
	} while (size > 0);
	while (next_line(&at, end, &line)) {
		if (line.len == 0)
			return (size_t)(at - data);
		if (!split_field(line, &name, &value))
			return 0;
	}
	return 0;
}
