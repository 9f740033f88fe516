#include "base/http/admin.h"

#include <errno.h>

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes up to '&' or the end. */
static int
admin_query_decode(const char *from, char *to, size_t size)
{
	size_t n = 0;

	for (; *from != '\0' && *from != '&'; from++) {
		char c = *from == '+' ? ' ' : *from;

		if (c == '%') {
			int high = hex_value(from[1]), low = high < 0 ? -1 : hex_value(from[2]);

			if (low < 0 || (high == 0 && low == 0))
				return -EINVAL;
			c = (char)(high * 16 + low);
			from += 2;
		}
		if (n + 1 >= size)
			return -EINVAL;
		to[n++] = c;
	}
	to[n] = '\0';
	return 1;
}

int
admin_query(const char *query, const char *name, char *to, size_t size)
{
	size_t len = strlen(name);

	while (*query != '\0') {
		if (strncmp(query, name, len) == 0 &&
			(query[len] == '=' || query[len] == '&' || query[len] == '\0'))
			return admin_query_decode(query + len + (query[len] == '='), to, size);
		query += strcspn(query, "&");
		query += *query == '&';
	}
	return 0;
}
