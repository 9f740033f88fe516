#include "base/tls/tls_alpn.h"

#include <errno.h>
#include <string.h>

bool
tls_alpn_select(const char *name, const unsigned char **out, unsigned char *out_len,
	const unsigned char *in, unsigned in_len)
{
	size_t n = strlen(name);

	for (unsigned i = 0; i < in_len && in[i] < in_len - i; i += in[i] + 1u)
		if (in[i] == n && memcmp(in + i + 1, name, n) == 0) {
			*out = in + i + 1;
			*out_len = in[i];
			return true;
		}
	return false;
}

int
tls_alpn_write(const char *const *names, unsigned char list[TLS_ALPN_BYTES])
{
	size_t len = 0;

	for (const char *const *at = names; at != NULL && *at != NULL; at++) {
		size_t n = strlen(*at);

		if (n == 0 || n > 255 || n + 1 > TLS_ALPN_BYTES - len)
			return -EINVAL;
		list[len] = (unsigned char)n;
		memcpy(list + len + 1, *at, n);
		len += n + 1;
	}
	return (int)len;
}
