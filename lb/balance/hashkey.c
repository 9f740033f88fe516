#include "lb/balance/hashkey.h"

#include <string.h>
#include <strings.h>

#include "base/core/hash.h"

static bool
hashkey_named(struct http1_str s, const char *name)
{
	return strncasecmp(s.at, name, s.len) == 0 && name[s.len] == '\0';
}

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* One pair of a Cookie field (RFC 6265 section 4.2.1): cookie names are case-sensitive. */
static bool
pair_is(const char *at, size_t len, const char *name, struct http1_str *value)
{
	size_t n = strlen(name);

	if (len <= n || memcmp(at, name, n) != 0 || at[n] != '=')
		return false;
	*value = (struct http1_str){.at = at + n + 1, .len = len - n - 1};
	return true;
}

static bool
find_cookie(struct http1_str field, const char *name, struct http1_str *value)
{
	const char *at = field.at, *end = field.at + field.len;

	while (at < end) {
		const char *stop = memchr(at, ';', (size_t)(end - at)), *last;

		stop = stop == NULL ? end : stop;
		while (at < stop && is_blank(*at))
			at++;
		for (last = stop; last > at && is_blank(last[-1]);)
			last--;
		if (pair_is(at, (size_t)(last - at), name, value))
			return true;
		at = stop + 1;
	}
	return false;
}

bool
hashkey_find(const struct http1_head *h, const char *name, bool cookie, struct http1_str *value)
{
	for (size_t i = 0; i < h->n_fields; i++) {
		const struct http1_field *f = &h->fields[i];

		if (!hashkey_named(f->name, cookie ? "cookie" : name))
			continue;
		*value = f->value;
		if (!cookie || find_cookie(f->value, name, value))
			return true;
	}
	return false;
}

uint64_t
hashkey_of(const struct service *s, const struct http1_head *head, uint32_t client_ip)
{
	struct http1_str value;

	if (s == NULL || head == NULL || s->lb.hash_on == HASH_ON_SOURCE_IP ||
		!hashkey_find(head, s->hash_key, s->lb.hash_on == HASH_ON_COOKIE, &value))
		return client_ip;
	return hash64(value.at, value.len, 0);
}
