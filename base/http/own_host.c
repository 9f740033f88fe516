#include "base/http/own_host.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* The authority without port, and without the brackets of an IPv6 address. Empty stays empty. */
static struct http1_str
own_host_name(struct http1_str authority)
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
own_host_same(struct http1_str a, const char *b)
{
	return a.len == strlen(b) && strncasecmp(a.at, b, a.len) == 0;
}

bool
own_host(struct http1_str authority, const char *const *names)
{
	struct http1_str host = own_host_name(authority);
	char text[INET6_ADDRSTRLEN];
	uint8_t ip[sizeof(struct in6_addr)];

	if (host.len == 0)
		return false;
	if (own_host_same(host, "localhost"))
		return true;
	for (; names != NULL && *names != NULL; names++)
		if (own_host_same(host, *names))
			return true;
	if (host.len >= sizeof text)
		return false;
	memcpy(text, host.at, host.len);
	text[host.len] = '\0';
	return inet_pton(AF_INET, text, ip) == 1 || inet_pton(AF_INET6, text, ip) == 1;
}
