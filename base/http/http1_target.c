/* Grammar of a head's parts: tokens, values, targets (RFC 9112 section 3.2) and hosts (RFC
 * 3986). */
#include <string.h>
#include <strings.h>

#include "base/http/http1_private.h"

enum { TOKEN = 1, REG_NAME = 2, IP_LITERAL = 4, VALUE = 8 };

#define ALNUM (TOKEN | REG_NAME | VALUE)
#define HEX (ALNUM | IP_LITERAL)

/* Character classes of each byte; REG_NAME: unreserved and sub-delims, without the percent sign. */
static const uint8_t classes[256] = {
	['\t'] = VALUE,
	[' '] = VALUE,
	['!'] = TOKEN | REG_NAME | VALUE,
	['"'] = VALUE,
	['#'] = TOKEN | VALUE,
	['$'] = TOKEN | REG_NAME | VALUE,
	['%'] = TOKEN | VALUE,
	['&'] = TOKEN | REG_NAME | VALUE,
	['\''] = TOKEN | REG_NAME | VALUE,
	['('] = REG_NAME | VALUE,
	[')'] = REG_NAME | VALUE,
	['*'] = TOKEN | REG_NAME | VALUE,
	['+'] = TOKEN | REG_NAME | VALUE,
	[','] = REG_NAME | VALUE,
	['-'] = TOKEN | REG_NAME | VALUE,
	['.'] = TOKEN | REG_NAME | IP_LITERAL | VALUE,
	['/'] = VALUE,
	['0' ... '9'] = HEX,
	[':'] = IP_LITERAL | VALUE,
	[';'] = REG_NAME | VALUE,
	['<'] = VALUE,
	['='] = REG_NAME | VALUE,
	['>' ... '@'] = VALUE,
	['A' ... 'F'] = HEX,
	['G' ... 'Z'] = ALNUM,
	['['] = VALUE,
	['\\'] = VALUE,
	[']'] = VALUE,
	['^'] = TOKEN | VALUE,
	['_'] = TOKEN | REG_NAME | VALUE,
	['`'] = TOKEN | VALUE,
	['a' ... 'f'] = HEX,
	['g' ... 'z'] = ALNUM,
	['{'] = VALUE,
	['|'] = TOKEN | VALUE,
	['}'] = VALUE,
	['~'] = TOKEN | REG_NAME | VALUE,
	[0x80 ... 0xff] = VALUE,
};

static bool
http1_target_all(struct http1_str s, uint8_t class)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!(classes[(unsigned char)s.at[i]] & class))
			return false;
	}
	return true;
}

bool
http1_token_char(char c)
{
	return classes[(unsigned char)c] & TOKEN;
}

bool
http1_valid_token(struct http1_str token)
{
	return token.len > 0 && http1_target_all(token, TOKEN);
}

bool
http1_valid_value(struct http1_str value)
{
	return http1_target_all(value, VALUE);
}

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool
valid_reg_name(struct http1_str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] == '%') {
			if (s.len - i < 3 || !is_hex(s.at[i + 1]) || !is_hex(s.at[i + 2]))
				return false;
			i += 2;
		} else if (!(classes[(unsigned char)s.at[i]] & REG_NAME)) {
			return false;
		}
	}
	return s.len > 0;
}

static bool
valid_port(const char *at, const char *end)
{
	unsigned port = 0;

	if (end - at > 5)
		return false;
	for (; at < end; at++) {
		if (*at < '0' || *at > '9')
			return false;
		port = port * 10 + (unsigned)(*at - '0');
	}
	return port <= 65535;
}

bool
http1_valid_host(struct http1_str host)
{
	const char *end = host.at + host.len, *colon;
	struct http1_str name;

	if (host.len == 0)
		return false;
	if (host.at[0] == '[') {
		const char *close = memchr(host.at, ']', host.len);

		if (close == NULL)
			return false;
		name = (struct http1_str){host.at + 1, (size_t)(close - host.at) - 1};
		if (name.len < 2 || !http1_target_all(name, IP_LITERAL) ||
			memchr(name.at, ':', name.len) == NULL)
			return false;
		return close + 1 == end || (close[1] == ':' && valid_port(close + 2, end));
	}
	colon = memchr(host.at, ':', host.len);
	name = (struct http1_str){host.at, (size_t)((colon != NULL ? colon : end) - host.at)};
	return valid_reg_name(name) && (colon == NULL || valid_port(colon + 1, end));
}

static bool
method_is(const struct http1_head *h, const char *name)
{
	return h->method.len == strlen(name) && memcmp(h->method.at, name, h->method.len) == 0;
}

/* scheme "://" authority [path] ["?" query]; the path may be missing altogether. */
static int
read_absolute(struct http1_head *h)
{
	struct http1_str t = h->target;
	size_t scheme = t.len > 7 && strncasecmp(t.at, "http://", 7) == 0 ? 7
		: t.len > 8 && strncasecmp(t.at, "https://", 8) == 0      ? 8
									  : 0;
	size_t end = scheme;

	if (scheme == 0)
		return http1_refuse(h, 400, "malformed target");
	while (end < t.len && t.at[end] != '/' && t.at[end] != '?')
		end++;
	h->host = (struct http1_str){t.at + scheme, end - scheme};
	if (!http1_valid_host(h->host))
		return http1_refuse(h, 400, "the target's authority is not a host");
	h->target = (struct http1_str){t.at + end, t.len - end};
	if (h->target.len == 0)
		h->target = (struct http1_str){method_is(h, "OPTIONS") ? "*" : "/", 1};
	return 0;
}

/* A target that starts with '?' (absolute-form without path) is emitted with a '/' in front. */
int
http1_read_target(struct http1_head *h)
{
	struct http1_str t = h->target;

	for (size_t i = 0; i < t.len; i++) {
		unsigned char c = (unsigned char)t.at[i];

		if (c <= 0x20 || c >= 0x7f || c == '#')
			return http1_refuse(h, 400, "the target holds a character that no URI has");
	}
	if (h->is_connect) {
		h->host = t;
		return http1_valid_host(t) ? 0 : http1_refuse(h, 400, "CONNECT wants HOST:PORT");
	}
	if (t.len > 0 && t.at[0] == '/')
		return 0;
	if (t.len == 1 && t.at[0] == '*')
		return method_is(h, "OPTIONS")
			? 0
			: http1_refuse(h, 400, "only OPTIONS may have the target *");
	return read_absolute(h);
}
