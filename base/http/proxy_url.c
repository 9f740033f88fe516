#include "base/http/proxy.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/core/base64.h"

enum {
	USER_MAX = 512, /* user:password */
	STANDARD_PORT = 80,
};

static int
proxy_url_hex(char c)
{
	if (!isxdigit((unsigned char)c))
		return -1;
	return isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Decodes %40 and the like; -1: a broken escape, a control character, or too long. */
static int
proxy_url_unescape(const char *at, size_t len, uint8_t to[USER_MAX])
{
	int n = 0;

	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)at[i];

		if (c == '%') {
			int high = i + 2 < len ? proxy_url_hex(at[i + 1]) : -1;
			int low = i + 2 < len ? proxy_url_hex(at[i + 2]) : -1;

			if (high < 0 || low < 0)
				return -1;
			c = (uint8_t)(high << 4 | low);
			i += 2;
		}
		if (c < 0x20 || c == 0x7f || n == USER_MAX)
			return -1;
		to[n++] = c;
	}
	return n;
}

static int
take_user(struct proxy *to, const char *user, size_t len, struct err *err)
{
	uint8_t plain[USER_MAX];
	struct buf out;
	int n;

	if (memchr(user, ':', len) == NULL || user[0] == ':')
		return err_set(err, EINVAL,
			"expected user:password before the @ (write : as %%3A and @ as %%40 in "
			"them)");
	n = proxy_url_unescape(user, len, plain);
	if (n < 0)
		return err_set(err, EINVAL,
			"user and password are too long or hold a broken %%-escape or a control "
			"character");
	buf_init(&out, BUF_UNLIMITED);
	buf_adds(&out, "Basic ");
	base64_add(&out, plain, (size_t)n);
	to->authorization = buf_take_str(&out);
	return 0;
}

static int
take_host(struct proxy *to, const char *at, size_t len, struct err *err)
{
	bool bracket = len > 0 && at[0] == '[';
	const char *end = bracket ? memchr(at, ']', len) : memchr(at, ':', len);
	size_t host_len, rest;
	unsigned long port = STANDARD_PORT;
	char *stop;

	if (bracket && end == NULL)
		return err_set(err, EINVAL, "a [ without ]");
	host_len = end != NULL ? (size_t)(end - at) - bracket : len;
	if (host_len == 0 || host_len >= sizeof(to->host))
		return err_set(err, EINVAL, "no host, or one that is too long");
	memcpy(to->host, at + bracket, host_len);
	to->host[host_len] = '\0';
	if (strspn(to->host,
		    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:") !=
		host_len)
		return err_set(err, EINVAL, "a character in the host that no name has");
	rest = host_len + 2 * bracket;
	if (rest < len) {
		port = at[rest] == ':' && isdigit((unsigned char)at[rest + 1])
			? strtoul(at + rest + 1, &stop, 10)
			: 0;
		if (port == 0 || port > UINT16_MAX || stop != at + len)
			return err_set(err, EINVAL, "the port must be 1 to 65535");
	}
	to->port = (uint16_t)port;
	return 0;
}

int
proxy_parse(struct proxy *to, const char *url, struct err *err)
{
	static const char scheme[] = "http://";
	const char *at = url + sizeof(scheme) - 1, *end, *host;
	size_t len;
	int rc;

	*to = (struct proxy){0};
	if (strncmp(url, scheme, sizeof(scheme) - 1) != 0)
		return err_set(err, EINVAL, "expected http://[USER:PASSWORD@]HOST[:PORT]");
	len = strcspn(at, "/?#");
	end = at + len;
	if (*end != '\0' && strcmp(end, "/") != 0)
		return err_set(err, EINVAL,
			"a path makes no sense here (in a password write / as %%2F, ? as %%3F, # "
			"as %%23)");
	for (host = end; host > at && host[-1] != '@'; host--)
		;
	if (host > at && (rc = take_user(to, at, (size_t)(host - at - 1), err)) < 0)
		return rc;
	rc = take_host(to, host, (size_t)(end - host), err);
	if (rc < 0)
		proxy_fini(to);
	return rc;
}

void
proxy_fini(struct proxy *p)
{
	free(p->authorization);
	*p = (struct proxy){0};
}
