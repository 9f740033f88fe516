#include "lb/proxy/trace.h"

#include <arpa/inet.h>
#include <string.h>
#include <time.h>

#include "lb/proxy/answer.h"
#include "lb/proxy/exchange.h"

/* --- sampling ------------------------------------------------------------------------------- */

/* All workers share the count of the current second; a few more may pass while it changes. */
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
trace_wanted(struct worker *w, bool has_parent, const struct trace_context *parent)
{
	bool sampled = has_parent ? (parent->flags & TRACE_SAMPLED) != 0
				  : worker_random(w) >> 32 < w->tracing.below;

	return sampled && within_limit(w);
}

/* --- the span ------------------------------------------------------------------------------- */

static struct trace_span *
trace_span_begin(struct exchange *ex, enum trace_part part, const struct trace_context *parent)
{
	const struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	const struct service *service = f->group->service;
	const uint64_t random[3] = {worker_random(w), worker_random(w), worker_random(w)};
	struct trace_span *s = span_new(part);
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	s->begin_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	s->begin_us = ex->begin_us;
	s->client_ip = f->client;
	s->client_port = f->client_port;
	s->port = f->group->key.port;
	span_link(s, parent, random);
	if (service != NULL) {
		span_copy(s->namespace, sizeof s->namespace, service->namespace,
			strlen(service->namespace));
		span_copy(s->service, sizeof s->service, service->name, strlen(service->name));
	}
	ex->span = s;
	return s;
}

void
trace_begin(struct exchange *ex, const struct http1_head *h, struct http1_forward *forward,
	char text[TRACEPARENT_LEN + 1])
{
	struct trace_context parent;
	bool has_parent = span_parent(h, &parent);
	struct trace_span *s;

	if (!trace_wanted(ex->downstream->worker, has_parent, &parent))
		return;
	s = trace_span_begin(ex, TRACE_REQUEST, has_parent ? &parent : NULL);
	s->http2 = ex->h2 != NULL;
	span_request(s, h, forward->host);
	traceparent_text(text, &s->context);
	forward->traceparent = text;
	forward->new_trace = !has_parent;
}

void
trace_relay(struct exchange *ex)
{
	const struct group *g = ex->downstream->group;
	struct in_addr ip = {.s_addr = htonl(g->key.ip)};
	struct trace_span *s;

	if (!trace_wanted(ex->downstream->worker, false, NULL))
		return;
	s = trace_span_begin(ex, TRACE_RELAY, NULL);
	/* server_first.h may have waited */
	s->begin_ns -= (answer_clock_us() - ex->begin_us) * 1000;
	inet_ntop(AF_INET, &ip, s->host, sizeof s->host);
}

void
trace_add(struct exchange *ex, enum trace_what what, const struct target *t)
{
	struct trace_span *s = ex->span;

	if (s->n_events == TRACE_EVENTS_MAX) {
		s->n_lost++;
		return;
	}
	s->events[s->n_events++] = (struct trace_event){.at_us = answer_clock_us(),
		.what = what,
		.ip = target_shown(t, t->at_other),
		.port = t->port};
}

void
trace_connected(struct exchange *ex)
{
	const struct target *t = exchange_target(ex);
	struct trace_span *s = ex->span;

	if (s == NULL)
		return;
	trace_add(ex, TRACE_CONNECTED, t);
	s->has_endpoint = true;
	s->endpoint_ip = target_shown(t, exchange_at_other(ex));
	s->endpoint_far = target_is_far(t);
	s->endpoint_port = t->port;
}

void
trace_end(struct exchange *ex)
{
	struct worker *w = ex->downstream->worker;
	struct trace_span *s = take_ptr(&ex->span);

	if (s == NULL)
		return;
	s->end_us = answer_clock_us();
	s->status = ex->access.status;
	memcpy(s->end, ex->access.end, sizeof s->end);
	s->bytes_up = ex->body_sent;
	s->bytes_down = ex->body_received;
	s->retries = exchange_retries(ex);
	*w->spans_last = s;
	w->spans_last = &s->next;
	if (++w->n_spans >= TRACE_PARCEL)
		trace_flush(w);
}

/* --- to loop 0 ------------------------------------------------------------------------------ */

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
