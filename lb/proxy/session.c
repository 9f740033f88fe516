#include "lb/proxy/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/hash.h"
#include "lb/balance/hashkey.h"

enum { TOKEN_LEN = 16 + 8 + 8 + 8 };

uint32_t
session_hash(const struct http_route_backend *b)
{
	uint64_t hash = hash64(b->ns, strlen(b->ns) + 1, b->port);

	return (uint32_t)hash64(b->name, strlen(b->name), hash);
}

static bool
session_hex(const char *at, size_t n, uint64_t *v)
{
	for (*v = 0; n > 0; n--, at++) {
		const char *digit = memchr("0123456789abcdef", *at, 16);

		if (digit == NULL)
			return false;
		*v = *v << 4 | (uint64_t)(digit - "0123456789abcdef");
	}
	return true;
}

static bool
session_parse(struct http1_str value, struct session_token *t)
{
	uint64_t parts[4];

	if (value.len != TOKEN_LEN || !session_hex(value.at, 16, &parts[0]))
		return false;
	for (size_t i = 0; i < 3; i++)
		if (!session_hex(value.at + 16 + 8 * i, 8, &parts[i + 1]))
			return false;
	*t = (struct session_token){
		parts[0], (uint32_t)parts[1], (uint32_t)parts[2], (uint32_t)parts[3]};
	return t->endpoint != 0;
}

/* Clocks of nodes differ: what seems to come from the future begins now. */
static bool
session_is_over(uint32_t since_s, uint64_t now_s, uint32_t limit_ms)
{
	return limit_ms != 0 && now_s > since_s && (now_s - since_s) * 1000 >= limit_ms;
}

bool
session_find(const struct http_route_session *s, const struct http1_head *h, uint64_t now_s,
	struct session_token *t)
{
	struct http1_str value;

	if (hashkey_find(h, s->name, !s->header, &value) && session_parse(value, t) &&
		!session_is_over(t->begun_s, now_s, s->absolute_ms) &&
		!session_is_over(t->used_s, now_s, s->idle_ms))
		return true;
	*t = (struct session_token){0};
	return false;
}

const struct http_route_backend *
session_backend(const struct http_route_rule *rule, const struct session_token *t)
{
	for (size_t i = 0; i < rule->n_backends; i++)
		if (!rule->backends[i].invalid && session_hash(&rule->backends[i]) == t->backend)
			return &rule->backends[i];
	return NULL;
}

bool
session_answer(const struct http_route_session *s, const struct session_token *had,
	struct session_token *now, char text[SESSION_FIELD_MAX], struct http_route_pair *p)
{
	bool same = had->endpoint == now->endpoint && had->backend == now->backend;
	int n = 0;

	/* another node's clock may be ahead */
	now->begun_s = same ? MIN(had->begun_s, now->used_s) : now->used_s;
	/* A client repeats a cookie by itself, and a field when its program copies the last one. */
	if (same && !s->header && (s->idle_ms == 0 || had->used_s == now->used_s))
		return false;
	if (!s->header)
		n = snprintf(text, SESSION_FIELD_MAX, "%s=", s->name);
	n += snprintf(text + n, SESSION_FIELD_MAX - (size_t)n, "%016" PRIx64 "%08x%08x%08x",
		now->endpoint, now->backend, now->begun_s, now->used_s);
	if (!s->header)
		n += snprintf(text + n, SESSION_FIELD_MAX - (size_t)n, "; Path=%s; HttpOnly",
			*s->path != '\0' ? s->path : "/");
	if (s->permanent)
		snprintf(text + n, SESSION_FIELD_MAX - (size_t)n, "; Max-Age=%u",
			s->absolute_ms / 1000 -
				MIN(now->used_s - now->begun_s, s->absolute_ms / 1000));
	*p = (struct http_route_pair){s->header ? s->name : "set-cookie", text};
	return true;
}
