#include "hub/web_judge.h"

#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/wshake.h"
#include "model/check.h"

/* Without the port; of an IPv6 address without brackets. Of nothing, nothing. */
static struct http1_str
host_of(struct http1_str authority)
{
	const char *colon;

	if (authority.len == 0)
		return authority;
	if (authority.at[0] == '[') {
		const char *end = memchr(authority.at, ']', authority.len);

		if (end == NULL)
			return (struct http1_str){authority.at, 0};
		return (struct http1_str){authority.at + 1, (size_t)(end - authority.at) - 1};
	}
	colon = memchr(authority.at, ':', authority.len);
	if (colon != NULL)
		authority.len = (size_t)(colon - authority.at);
	return authority;
}

static bool
same(struct http1_str a, const char *b)
{
	return a.len == strlen(b) && strncasecmp(a.at, b, a.len) == 0;
}

static bool
is_ours(struct http1_str authority, const char *const *names)
{
	struct http1_str host = host_of(authority);
	char text[INET6_ADDRSTRLEN];
	struct in6_addr ip;

	if (host.len == 0)
		return false;
	if (same(host, "localhost"))
		return true;
	for (; names != NULL && *names != NULL; names++)
		if (same(host, *names))
			return true;
	if (host.len >= sizeof text)
		return false;
	memcpy(text, host.at, host.len);
	text[host.len] = '\0';
	return ip_parse(text, &ip);
}

/* RFC 6454 section 7: scheme, host and port, as the page itself has them. */
static bool
is_own_origin(struct http1_str origin, struct http1_str host, bool secure)
{
	const char *scheme = secure ? "https://" : "http://";
	size_t n = strlen(scheme);

	return origin.len == n + host.len && memcmp(origin.at, scheme, n) == 0 &&
		strncasecmp(origin.at + n, host.at, host.len) == 0;
}

unsigned
web_judge(const struct http1_head *h, const char *const *names, bool secure, const char **why)
{
	const struct http1_field *origin = wshake_find(h, "origin");

	*why = "this page is read-only: GET and HEAD";
	if (!h->is_head && !(h->method.len == 3 && memcmp(h->method.at, "GET", 3) == 0))
		return 405;
	*why = "a body where none may be";
	if (h->framing != HTTP1_EMPTY && !(h->has_length && h->length == 0))
		return 400;
	*why = "this name is not the page's: ask for an address, for localhost, or put the name "
	       "into web.names";
	if (!is_ours(h->host, names))
		return 421;
	*why = "another page may not ask for this one";
	if (origin != NULL && !is_own_origin(origin->value, h->host, secure))
		return 403;
	return 0;
}

static bool
begins(struct http1_str s, const char *word)
{
	return s.len > strlen(word) && strncasecmp(s.at, word, strlen(word)) == 0;
}

char *
web_secret(const struct http1_head *h)
{
	const struct http1_field *f = wshake_find(h, "authorization");
	auto_free char *text = NULL, *pair = NULL;
	const char *colon;

	if (f == NULL)
		return NULL;
	if (begins(f->value, "bearer "))
		return xstrndup(f->value.at + 7, f->value.len - 7);
	if (!begins(f->value, "basic "))
		return NULL;
	text = xstrndup(f->value.at + 6, f->value.len - 6);
	pair = base64_text(text);
	colon = pair != NULL ? strchr(pair, ':') : NULL;
	return colon != NULL ? xstrdup(colon + 1) : NULL;
}

bool
web_unchanged(const struct http1_head *h, const char *etag)
{
	return wshake_lists(wshake_find(h, "if-none-match"), etag);
}
