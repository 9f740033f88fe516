#include "lb/trace.h"

#include <string.h>
#include <time.h>

#include "lb/answer.h"

/* --- which requests ----------------------------------------------------------- */

static bool
read_parent(const struct http1_head *h, struct trace_context *parent)
{
	const struct http1_field *only = NULL;

	for (size_t i = 0; i < h->n_fields; i++) {
		if (h->fields[i].id != HTTP1_TRACEPARENT || h->fields[i].hop)
			continue;
		if (only != NULL)
			return false; /* who is to be believed? */
		only = &h->fields[i];
	}
	return only != NULL && traceparent_parse(parent, only->value.at, only->value.len);
}

/* All workers count in the same second; a few more may pass while it changes. */
static bool
within_limit(struct worker *w)
{
	struct lb *lb = w->lb;
	uint64_t second = w->now_ms / 1000;

	if (atomic_exchange_explicit(&lb->trace_second, second, memory_order_relaxed) != second)
		atomic_store_explicit(&lb->traced, 0, memory_order_relaxed);
	if (atomic_fetch_add_explicit(&lb->traced, 1, memory_order_relaxed) < w->tracing.per_s)
		return true;
	count(&w->counters.trace_limited, 1);
	return false;
}

static bool
wanted(struct worker *w, bool has_parent, const struct trace_context *parent)
{
	bool sampled = has_parent ? (parent->flags & TRACE_SAMPLED) != 0
				  : worker_random(w) >> 32 < w->tracing.below;

	return sampled && within_limit(w);
}

/* Never all zero. */
static void
random_id(struct worker *w, uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
		uint64_t v = worker_random(w);

		memcpy(to + i, &v, sizeof v);
	}
	to[n - 1] |= to[0] == 0;
}

/* --- the span ------------------------------------------------------------------ */

static void
copy(char *to, size_t size, const char *from, size_t len)
{
	len = MIN(len, size - 1);
	memcpy(to, from, len);
	to[len] = '\0';
}

static size_t
until(struct http1_str s, char stop)
{
	const char *end = s.len > 0 ? memchr(s.at, stop, s.len) : NULL;

	return end != NULL ? (size_t)(end - s.at) : s.len;
}

static void
copy_request(struct trace_span *s, const struct http1_head *h, const char *fallback)
{
	struct http1_str host = h->host, path = h->target;

	if (host.len == 0)
		host = (struct http1_str){fallback, strlen(fallback)};

	copy(s->method, sizeof s->method, h->method.at, h->method.len);
	host.len = host.len > 0 && host.at[0] == '[' ? MIN(until(host, ']') + 1, host.len)
						     : until(host, ':');
	copy(s->host, sizeof s->host, host.at, host.len);
	path.len = until(path, '?');
	copy(s->path, sizeof s->path, path.len > 0 ? path.at : "/", MAX(path.len, 1u));
}

static struct trace_span *
span_new(const struct exchange *ex, const struct http1_head *h, const char *host)
{
	const struct front *f = ex->front;
	const struct service *service = f->group->service;
	struct trace_span *s = xmalloc(sizeof *s);
	struct timespec ts;

	/* Not the events, which are most of it. */
	memset(s, 0, offsetof(struct trace_span, events));
	clock_gettime(CLOCK_REALTIME, &ts);
	s->begin_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	s->begin_us = ex->begin_us;
	s->client_ip = f->client_ip;
	s->client_port = f->client_port;
	s->port = f->group->port;
	copy_request(s, h, host);
	if (service != NULL) {
		copy(s->namespace, sizeof s->namespace, service->namespace,
			strlen(service->namespace));
		copy(s->service, sizeof s->service, service->name, strlen(service->name));
	}
	return s;
}

void
trace_begin(struct exchange *ex, const struct http1_head *h, struct http1_forward *forward,
	char text[TRACEPARENT_LEN + 1])
{
	struct worker *w = ex->front->worker;
	struct trace_context context;
	bool has_parent = read_parent(h, &context);
	struct trace_span *s;

	if (!wanted(w, has_parent, &context))
		return;
	s = span_new(ex, h, forward->host);
	s->has_parent = has_parent;
	if (has_parent) {
		memcpy(s->parent, context.span, sizeof s->parent);
	} else {
		random_id(w, context.trace, sizeof context.trace);
		context.flags = TRACE_SAMPLED | TRACE_RANDOM;
	}
	random_id(w, context.span, sizeof context.span);
	s->context = context;
	ex->span = s;
	traceparent_text(text, &context);
	forward->traceparent = text;
	forward->new_trace = !has_parent;
}

void
trace_add(struct exchange *ex, enum trace_what what, const struct target *t)
{
	struct trace_span *s = ex->span;

	if (s->n_events == TRACE_EVENTS_MAX) {
		s->n_lost++;
		return;
	}
	s->events[s->n_events++] = (struct trace_event){
		.at_us = answer_clock_us(), .what = what, .ip = t->shown, .port = t->port};
}

void
trace_connected(struct exchange *ex)
{
	const struct target *t = ex->back->target;
	struct trace_span *s = ex->span;

	if (s == NULL)
		return;
	trace_add(ex, TRACE_CONNECTED, t);
	s->has_endpoint = true;
	s->endpoint_ip = t->shown;
	s->endpoint_far = target_is_far(t);
	s->endpoint_port = t->port;
}

void
trace_end(struct exchange *ex)
{
	struct worker *w = ex->front->worker;
	struct trace_span *s = take_ptr(&ex->span);

	if (s == NULL)
		return;
	s->end_us = answer_clock_us();
	s->status = ex->access.status;
	memcpy(s->end, ex->access.end, sizeof s->end);
	s->bytes_up = ex->body_sent;
	s->bytes_down = ex->body_received;
	s->retries = (unsigned)ex->n_tried + ex->n_stale;
	*w->spans_last = s;
	w->spans_last = &s->next;
	if (++w->n_spans >= TRACE_PARCEL)
		trace_flush(w);
}

/* --- to loop 0 ------------------------------------------------------------------- */

struct parcel {
	struct lb *lb;
	struct trace_span *first;
	unsigned n, dropped;
};

static void
on_parcel(void *arg)
{
	struct parcel *p = arg;
	const struct lb_config *c = &p->lb->config;

	atomic_fetch_sub_explicit(&p->lb->spans_waiting, p->n, memory_order_relaxed);
	c->take_spans(c->spans_arg, p->first, p->dropped);
	free(p);
}

static void
free_all(struct trace_span *s)
{
	while (s != NULL) {
		struct trace_span *next = s->next;

		free(s);
		s = next;
	}
}

void
trace_flush(struct worker *w)
{
	struct lb *lb = w->lb;
	struct parcel *p;

	if (w->n_spans == 0)
		return;
	p = xcalloc(1, sizeof *p);
	p->lb = lb;
	if (atomic_load_explicit(&lb->spans_waiting, memory_order_relaxed) < TRACE_WAITING_MAX) {
		p->first = w->spans;
		p->n = w->n_spans;
	} else {
		p->dropped = w->n_spans;
		free_all(w->spans);
	}
	w->spans = NULL;
	w->spans_last = &w->spans;
	w->n_spans = 0;
	atomic_fetch_add_explicit(&lb->spans_waiting, p->n, memory_order_relaxed);
	loop_post(lb->config.main, on_parcel, p);
}
