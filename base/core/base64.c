#include "base/core/base64.h"

#include <assert.h>
#include <string.h>

enum { WRONG = 0xff };

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static unsigned
value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (unsigned)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (unsigned)(c - 'a' + 26);
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0' + 52);
	return c == '+' ? 62 : c == '/' ? 63 : WRONG;
}

char *
base64_text(const char *in)
{
	char *out = xmalloc(strlen(in) + 1);
	size_t n = 0;
	unsigned bits = 0, n_bits = 0;

	for (; *in != '\0' && *in != '='; in++) {
		unsigned value = value_of(*in);

		if (strchr(" \t\r\n", *in) != NULL)
			continue;
		if (value == WRONG)
			break;
		bits = bits << 6 | value;
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			out[n++] = (char)(bits >> n_bits & 0xff);
		}
	}
	out[n] = '\0';
	if (in[strspn(in, "= \t\r\n")] == '\0' && n > 0 && strlen(out) == n)
		return out;
	free(out);
	return NULL;
}

void
base64_add(struct buf *out, const void *data, size_t len)
{
	const unsigned char *in = data;
	char *to = buf_reserve(out, (len + 2) / 3 * 4);

	assert(to != NULL);
	for (size_t i = 0; i < len; i += 3) {
		uint32_t v = (uint32_t)in[i] << 16;

		if (i + 1 < len)
			v |= (uint32_t)in[i + 1] << 8;
		if (i + 2 < len)
			v |= in[i + 2];
		*to++ = digits[v >> 18];
		*to++ = digits[v >> 12 & 63];
		*to++ = i + 1 < len ? digits[v >> 6 & 63] : '=';
		*to++ = i + 2 < len ? digits[v & 63] : '=';
	}
	buf_commit(out, (len + 2) / 3 * 4);
}

/* Decodes four digits: the number of bytes, at most three, or -1. */
static int
decode_four(const char *in, bool last, unsigned char out[3])
{
	int n = last && in[3] == '=' ? in[2] == '=' ? 1 : 2 : 3;
	uint32_t v = 0;

	for (int i = 0; i < 4; i++) {
		unsigned d = i > n ? 0 : value_of(in[i]);

		if (d == WRONG)
			return -1;
		v = v << 6 | d;
	}
	if ((v & (0xffffffu >> 8 * n)) != 0)
		return -1; /* padding bits must be 0: one encoding per content */
	out[0] = (unsigned char)(v >> 16);
	out[1] = (unsigned char)(v >> 8);
	out[2] = (unsigned char)v;
	return n;
}

int
base64_take(const char *text, size_t len, size_t *at, unsigned char *out, size_t size)
{
	size_t n = 0;

	assert(len % 4 == 0 && *at % 4 == 0);
	while (*at < len && n + 3 <= size) {
		int more = decode_four(text + *at, *at + 4 == len, out + n);

		if (more < 0)
			return -1;
		n += (size_t)more;
		*at += 4;
	}
	return (int)n;
}
