#include "hub/page/web_judge.h"

#include <string.h>
#include <strings.h>

#include "base/core/base64.h"
#include "base/http/own_host.h"
#include "base/http/wshake.h"

/* RFC 6454 section 7: scheme, host and port must be the page's own. */
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
	if (!own_host(h->host, names))
		return 421;
	*why = "another page may not ask for this one";
	if (origin != NULL && !is_own_origin(origin->value, h->host, secure))
		return 403;
	return 0;
}

static bool
web_judge_begins(struct http1_str s, const char *word)
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
	if (web_judge_begins(f->value, "bearer "))
		return xstrndup(f->value.at + 7, f->value.len - 7);
	if (!web_judge_begins(f->value, "basic "))
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
