#include "model/span.h"

#include <string.h>

static bool
is_carried(enum trace_part part)
{
	return part != TRACE_REQUEST && part != TRACE_RELAY;
}

struct trace_span *
span_new(enum trace_part part)
{
	size_t more = is_carried(part) ? sizeof(struct trace_carried) : 0;
	struct trace_span *s = xmalloc(sizeof *s + more);

	/* Does not clear the events, which are most of the size. */
	memset(s, 0, offsetof(struct trace_span, events));
	s->part = part;
	if (more > 0) {
		s->carried = (struct trace_carried *)(void *)(s + 1);
		memset(s->carried, 0, more);
	}
	return s;
}

void
span_link(struct trace_span *s, const struct trace_context *parent, const uint64_t random[3])
{
	s->has_parent = parent != NULL;
	if (parent != NULL) {
		s->context = *parent;
		memcpy(s->parent, parent->span, sizeof s->parent);
	} else {
		memcpy(s->context.trace, random, TRACE_ID_BYTES);
		s->context.trace[TRACE_ID_BYTES - 1] |= s->context.trace[0] == 0;
		s->context.flags = TRACE_SAMPLED | TRACE_RANDOM;
	}
	memcpy(s->context.span, random + 2, TRACE_SPAN_BYTES);
	s->context.span[TRACE_SPAN_BYTES - 1] |= s->context.span[0] == 0;
}

void
span_copy(char *to, size_t size, const char *from, size_t len)
{
	len = MIN(len, size - 1);
	memcpy(to, from, len);
	to[len] = '\0';
}

/* --- heads of HTTP/1 ------------------------------------------------------------------------ */

bool
span_parent(const struct http1_head *h, struct trace_context *parent)
{
	const struct http1_field *only = NULL;

	for (size_t i = 0; i < h->n_fields; i++) {
		if (h->fields[i].id != HTTP1_TRACEPARENT || h->fields[i].hop)
			continue;
		if (only != NULL)
			return false; /* several values: none can be trusted */
		only = &h->fields[i];
	}
	return only != NULL && traceparent_parse(parent, only->value.at, only->value.len);
}

static size_t
span_until(struct http1_str s, char stop)
{
	const char *end = s.len > 0 ? memchr(s.at, stop, s.len) : NULL;

	return end != NULL ? (size_t)(end - s.at) : s.len;
}

void
span_request(struct trace_span *s, const struct http1_head *h, const char *fallback)
{
	struct http1_str host = h->host, path = h->target;

	if (host.len == 0)
		host = (struct http1_str){fallback, strlen(fallback)};
	span_copy(s->method, sizeof s->method, h->method.at, h->method.len);
	host.len = host.len > 0 && host.at[0] == '[' ? MIN(span_until(host, ']') + 1, host.len)
						     : span_until(host, ':');
	span_copy(s->host, sizeof s->host, host.at, host.len);
	path.len = span_until(path, '?');
	span_copy(s->path, sizeof s->path, path.len > 0 ? path.at : "/", MAX(path.len, (size_t)1));
}

/* --- sampling on one thread ----------------------------------------------------------------- */

static bool
within_limit(struct span_source *from, uint64_t second)
{
	if (from->second != second)
		from->made = 0;
	from->second = second;
	if (from->made < from->per_s) {
		from->made++;
		return true;
	}
	from->limited++;
	return false;
}

struct trace_span *
span_begin(struct span_source *from, enum trace_part part, const struct trace_context *parent,
	const struct trace_moment *now)
{
	bool sampled = parent != NULL ? (parent->flags & TRACE_SAMPLED) != 0
				      : now->random[3] >> 32 < from->below;
	struct trace_span *s;

	if (!sampled || !within_limit(from, now->us / 1000000))
		return NULL;
	s = span_new(part);
	span_link(s, parent, now->random);
	s->begin_ns = now->unix_ns;
	s->begin_us = now->us;
	return s;
}

void
span_end(struct span_source *from, struct trace_span **span, uint64_t now_us)
{
	struct trace_span *s = take_ptr(span);

	if (s == NULL)
		return;
	s->end_us = MAX(now_us, s->begin_us);
	if (from->on)
		from->take(from->arg, s, 0);
	else
		free(s);
}
