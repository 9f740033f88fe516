#include "base/base64.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *
base64_text(const char *in)
{
	char *out = xmalloc(strlen(in) + 1);
	size_t n = 0;
	unsigned bits = 0, n_bits = 0;

	for (; *in != '\0' && *in != '='; in++) {
		const char *digit = strchr(digits, *in);

		if (strchr(" \t\r\n", *in) != NULL)
			continue;
		if (digit == NULL)
			break;
		bits = bits << 6 | (unsigned)(digit - digits);
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
	const unsigned char *at = data;

	for (; len > 0; at += 3) {
		unsigned bits = (unsigned)at[0] << 16 | (len > 1 ? (unsigned)at[1] << 8 : 0) |
			(len > 2 ? at[2] : 0u);
		char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
			len > 1 ? digits[bits >> 6 & 63] : '=', len > 2 ? digits[bits & 63] : '='};

		buf_add(out, four, sizeof four);
		len -= MIN(len, (size_t)3);
	}
}
