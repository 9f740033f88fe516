#include "src/ctl/ctl_clean.h"

#include <string.h>

enum { UNICODE_MOST = 0x10ffff, SURROGATE_FIRST = 0xd800, SURROGATE_LAST = 0xdfff };

/* Length of the character that begins with this byte (RFC 3629); 0: no character begins with it. */
static size_t
ctl_clean_promised(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef)
		return 3;
	return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* How many bytes of the character are present, at most its length. */
static size_t
ctl_clean_present(const char *p, size_t n, size_t most)
{
	size_t have = 1;

	while (have < most && have < n && ((unsigned char)p[have] & 0xc0) == 0x80)
		have++;
	return have;
}

static uint32_t
ctl_clean_decode(const char *p, size_t len)
{
	static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t c = (unsigned char)p[0] & masks[len];

	for (size_t i = 1; i < len; i++)
		c = c << 6 | ((unsigned char)p[i] & 0x3f);
	return c;
}

/* Overlong encodings are not UTF-8. */
static bool
is_shortest(uint32_t c, size_t len)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

	return c >= least[len] && c <= UNICODE_MOST && (c < SURROGATE_FIRST || c > SURROGATE_LAST);
}

static bool
is_control(uint32_t c)
{
	return (c < ' ' && c != '\n' && c != '\t') || (c >= 0x7f && c <= 0x9f);
}

/* Takes one character; returns 0 if the rest of it may follow. */
static size_t
add_one(struct buf *out, const char *p, size_t n, bool last)
{
	size_t len = ctl_clean_promised((unsigned char)*p),
	       have = len > 0 ? ctl_clean_present(p, n, len) : 0;
	uint32_t c;

	if (len > 0 && have < len && have == n && !last)
		return 0;
	if (len == 0 || have < len || !is_shortest(c = ctl_clean_decode(p, len), len)) {
		buf_printf(out, "\\x%02x", (unsigned char)*p);
		return 1;
	}
	if (is_control(c))
		buf_printf(out, "\\u%04x", (unsigned)c);
	else
		buf_add(out, p, len);
	return len;
}

static size_t
add_mark(struct buf *out, const char *p, size_t n, bool last, clean_mark_fn *mark)
{
	const char *meant;

	if (n < 2 && !last)
		return 0;
	meant = n < 2 ? "" : mark(p[1]);
	if (meant[0] == '\0')
		return add_one(out, p, n, last);
	buf_adds(out, meant);
	return 2;
}

size_t
clean_add(struct buf *out, const char *bytes, size_t n, bool last, clean_mark_fn *mark)
{
	size_t used = 0, took = 1;

	while (used < n && took > 0) {
		const char *p = bytes + used;

		took = *p == CLEAN_MARK && mark != NULL ? add_mark(out, p, n - used, last, mark)
							: add_one(out, p, n - used, last);
		used += took;
	}
	return used;
}

char *
clean_line(const char *text)
{
	auto_free char *line = xstrdup(text);
	struct buf out;

	for (char *p = line; *p != '\0'; p++) {
		if (*p == '\n' || *p == '\t')
			*p = ' ';
	}
	buf_init(&out, BUF_UNLIMITED);
	clean_add(&out, line, strlen(line), true, NULL);
	return buf_take_str(&out);
}
