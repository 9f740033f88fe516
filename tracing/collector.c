#include "tracing/collector.h"

#include <errno.h>
#include <string.h>

#include "base/http/http1.h"

enum { HTTP_PORT = 80, HTTPS_PORT = 443, PATH_MAX_BYTES = 2048 };

static int
take_port(struct collector *c, const char *at, size_t len, struct err *err)
{
	unsigned long port;
	char *stop;

	if (len == 0)
		return 0;
	port = at[0] == ':' && len > 1 && at[1] >= '0' && at[1] <= '9' ? strtoul(at + 1, &stop, 10)
								       : 0;
	if (port == 0 || port > UINT16_MAX || stop != at + len)
		return err_set(err, EINVAL, "behind the host only a port may stand, 1 to 65535");
	c->port = (uint16_t)port;
	return 0;
}

static int
take_authority(struct collector *c, const char *at, size_t len, struct err *err)
{
	bool bracket = len > 0 && at[0] == '[';
	const char *end = memchr(at, bracket ? ']' : ':', len);
	size_t n = end != NULL ? (size_t)(end - at) - bracket : len;

	if (memchr(at, '@', len) != NULL)
		return err_set(err, EINVAL,
			"user and password do not belong into the URL: give tracing.headers");
	if (n == 0 || n >= sizeof c->host || (bracket && end == NULL) ||
		!http1_valid_host((struct http1_str){at, len}))
		return err_set(err, EINVAL,
			"expected http://HOST[:PORT][/PATH] or https://..., such as "
			"http://collector.observability:4318/v1/traces");
	memcpy(c->host, at + bracket, n);
	c->host[n] = '\0';
	c->authority = xstrndup(at, len);
	n += 2 * bracket;
	return take_port(c, at + n, len - n, err);
}

static int
take_header(struct buf *to, const char *header, struct err *err)
{
	/* Fields that the request sets itself. */
	static const char *const own[] = {"host", "content-length", "content-type",
		"content-encoding", "transfer-encoding", "connection", "traceparent"};
	const char *eq = strchr(header, '=');
	struct http1_str name = {header, eq != NULL ? (size_t)(eq - header) : 0}, value;

	if (name.len == 0 || !http1_valid_token(name))
		return err_set(err, EINVAL, "expected NAME=VALUE, such as api-key=0123");
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		if (http1_is(name, own[i]))
			return err_set(err, EINVAL, "%s cannot be set", own[i]);
	}
	value = (struct http1_str){eq + 1, strlen(eq + 1)};
	if (!http1_valid_value(value))
		return err_set(err, EINVAL, "the value of %.*s holds a control character",
			(int)MIN(name.len, 64u), name.at);
	buf_printf(to, "%.*s: %s\r\n", (int)name.len, name.at, value.at);
	return 0;
}

int
collector_parse(struct collector *c, const char *url, const char *const *headers, struct err *err)
{
	size_t scheme = strcspn(url, ":"), len;
	const char *at = url + scheme + strlen("://"), *path;
	struct buf fields;
	int rc;

	*c = (struct collector){.tls = scheme == 5};
	c->port = c->tls ? HTTPS_PORT : HTTP_PORT;
	if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		return err_set(err, EINVAL,
			"expected http:// or https://, such as "
			"http://collector.observability:4318/v1/traces");
	len = strcspn(at, "/?#");
	path = at + len;
	for (const char *p = path; *p != '\0'; p++) {
		if (*p <= ' ' || *p >= 0x7f || *p == '#' || p - path > PATH_MAX_BYTES)
			return err_set(err, EINVAL,
				"the path is too long, or has a blank, a # or a character that is "
				"not ASCII");
	}
	rc = take_authority(c, at, len, err);
	c->path = xasprintf(
		"%s%s", path[0] == '/' ? "" : "/v1/traces", strcmp(path, "/") == 0 ? "" : path);
	if (c->path[0] == '\0') {
		free(c->path);
		c->path = xstrdup("/");
	}
	buf_init(&fields, BUF_UNLIMITED);
	for (size_t i = 0; rc == 0 && headers[i] != NULL; i++)
		rc = take_header(&fields, headers[i], err);
	c->fields = buf_take_str(&fields);
	if (rc < 0)
		collector_fini(c);
	return rc;
}

void
collector_fini(struct collector *c)
{
	free(take_ptr(&c->authority));
	free(take_ptr(&c->path));
	free(take_ptr(&c->fields));
}
