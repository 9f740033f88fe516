#include "tunnel/h2/udp_path.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "/.well-known/masque/udp/";

static bool
is_plain(char c) /* RFC 3986 section 2.3 */
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		c == '-' || c == '.' || c == '_' || c == '~';
}

static bool
is_port(const char *text, size_t n)
{
	return n > 0 && n <= 5 && strspn(text, "0123456789") >= n;
}

bool
udp_path_build(const char *authority, char *to, size_t size)
{
	const char *colon = strrchr(authority, ':'), *host = authority;
	size_t n = colon != NULL ? (size_t)(colon - authority) : 0;
	size_t at = strlen(prefix);

	if (n == 0 || !is_port(colon + 1, strlen(colon + 1)))
		return false;
	if (host[0] == '[' && host[n - 1] == ']' && n > 2) {
		host++;
		n -= 2;
	}
	if (at + 3 * n + strlen(colon) + 2 > size)
		return false;
	strcpy(to, prefix);
	for (size_t i = 0; i < n; i++)
		at += (size_t)sprintf(
			to + at, is_plain(host[i]) ? "%c" : "%%%02X", (unsigned char)host[i]);
	sprintf(to + at, "/%s/", colon + 1);
	return true;
}

static int
udp_path_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes one character of the host and advances *at. '\0': invalid. */
static char
next_char(const char **at)
{
	const char *p = *at;
	int high, low;

	if (*p != '%') {
		*at += 1;
		return is_plain(*p) ? *p : '\0';
	}
	high = udp_path_hex(p[1]);
	low = high >= 0 ? udp_path_hex(p[2]) : -1;
	if (low < 0)
		return '\0';
	*at += 3;
	return is_plain((char)(high << 4 | low)) || (high << 4 | low) == ':'
		? (char)(high << 4 | low)
		: '\0';
}

bool
udp_path_parse(const char *path, char *authority, size_t size)
{
	char host[256];
	const char *at, *end;
	size_t n = 0;
	int len;

	if (strncmp(path, prefix, strlen(prefix)) != 0)
		return false;
	at = path + strlen(prefix);
	while (*at != '/' && *at != '\0' && n < sizeof host - 1)
		if ((host[n++] = next_char(&at)) == '\0')
			return false;
	host[n] = '\0';
	end = *at == '/' ? strchr(at + 1, '/') : NULL;
	if (n == 0 || end == NULL || end[1] != '\0' || !is_port(at + 1, (size_t)(end - at - 1)))
		return false;
	len = snprintf(authority, size, strchr(host, ':') != NULL ? "[%s]:%.*s" : "%s:%.*s", host,
		(int)(end - at - 1), at + 1);
	return len > 0 && (size_t)len < size;
}
