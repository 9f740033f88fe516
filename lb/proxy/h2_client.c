#include "lb/proxy/h2_client.h"

#include <errno.h>

#include "base/core/log.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/h2_stream.h"
#include "lb/proxy/memory.h"
#include "lb/proxy/permit.h"
#include "lb/proxy/proxy.h"

/* --- the codec's events --------------------------------------------------------------------- */

static void *
on_request(void *arg, int32_t id, struct h2_section *section, bool last)
{
	struct h2_client *c = arg;
	struct h2_stream *st = h2_stream_new(c, id);

	h2_stream_start(st, section, last);
	return st;
}

static void
on_trailers(void *arg, void *stream, enum h2_part part, struct h2_section *section, bool last)
{
	(void)arg;
	(void)part;
	(void)last;
	h2_stream_client_trailers(stream, section);
}

static void
on_data(void *arg, void *stream, const char *data, size_t n)
{
	(void)arg;
	h2_stream_from_client(stream, data, n);
}

static void
on_end(void *arg, void *stream)
{
	(void)arg;
	h2_stream_client_done(stream);
}

static void
on_closed(void *arg, void *stream, uint32_t code)
{
	(void)arg;
	h2_stream_client_gone(stream, code);
}

static size_t
on_source(void *arg, void *stream, const char **at, enum h2_rest *rest)
{
	(void)arg;
	return h2_stream_for_client(stream, at, rest);
}

static void
on_sent(void *arg, void *stream, size_t n)
{
	(void)arg;
	h2_stream_client_took(stream, n);
}

static void
on_send_trailers(void *arg, void *stream)
{
	struct h2_client *c = arg;
	struct h2_stream *st = stream;
	struct h2_fields *f = &c->link.worker->fields;

	h2_fields_trailers(f, &st->trailers_down);
	h2_trailers(c->link.h2, st->id, f);
}

static void
on_goaway(void *arg, uint32_t code)
{
	struct h2_client *c = arg;

	(void)code;
	c->leaving = true;
}

static const struct h2_events events = {
	.request = on_request,
	.head = on_trailers,
	.data = on_data,
	.end = on_end,
	.closed = on_closed,
	.source = on_source,
	.sent = on_sent,
	.trailers = on_send_trailers,
	.goaway = on_goaway,
};

/* --- the connection ------------------------------------------------------------------------- */

/* An idle one rests after SPAN_PROBE, and ends after SPAN_IDLE; one with streams has the deadlines
 * of these. */
static void
client_touch(struct h2_client *c)
{
	struct downstream *f = c->downstream;
	struct worker *w = f->worker;

	if (buf_len(&f->peer.out) > 0) { /* a client that reads nothing, whatever its streams do */
		if (!c->blocked)
			expiry_set(&w->expiries, &f->expiry, SPAN_IDLE, w->now_ms);
		c->blocked = true;
		return;
	}
	c->blocked = false;
	if (c->draining && !c->leaving)
		return; /* until GOAWAY is due */
	c->rested = false;
	if (c->n_streams == 0)
		expiry_set(&w->expiries, &f->expiry, SPAN_PROBE, w->now_ms);
	else
		expiry_cancel(&f->expiry);
}

static void
client_failed(struct h2_client *c)
{
	struct downstream *f = c->downstream;
	char client[IP_TEXT_MAX];

	if (c->failed)
		return;
	c->failed = true;
	count(h2_code(c->link.h2) == H2_ENHANCE_YOUR_CALM ? &f->worker->counters.floods
							  : &f->worker->counters.bad_request,
		1);
	log_limited(LOG_LEVEL_WARN, 6, "lb", "ended a client's HTTP/2 connection: %s client=%s",
		h2_why(c->link.h2), ip_text(&f->client, client));
}

static void
on_flushed(struct h2_link *l, bool over)
{
	struct h2_client *c = container_of(l, struct h2_client, link);
	struct downstream *f = c->downstream;

	if (l->peer->broken) {
		count(&l->worker->counters.client_lost, 1);
		downstream_close(f, true);
		return;
	}
	if (over && h2_code(l->h2) != H2_NO_ERROR)
		client_failed(c);
	if (over ||
		(c->leaving && c->n_streams == 0 && !h2_wants_output(l->h2) &&
			buf_len(&l->peer->out) == 0)) {
		h2_client_free(f);
		downstream_linger(f);
		return;
	}
	client_touch(c);
	memory_settle(f);
}

void
h2_client_open(struct downstream *f)
{
	struct h2_client *c = xcalloc(1, sizeof *c);

	c->downstream = f;
	list_init(&c->streams);
	f->h2 = c;
	f->state = DOWNSTREAM_HTTP2;
	count(&f->worker->counters.http2, 1);
	h2_link_open(&c->link, f->worker, &f->peer,
		&(struct h2_setup){.role = H2_SERVER, .events = &events, .arg = c}, on_flushed);
	client_touch(c);
}

void
h2_client_on_input(struct downstream *f)
{
	struct buf in = f->base.in;
	int rc;

	if (buf_len(&in) == 0)
		return;
	buf_init(&f->base.in, BUF_UNLIMITED);
	rc = h2_link_input(&f->h2->link, buf_at(&in), buf_len(&in));
	buf_fini(&in);
	if (rc < 0)
		client_failed(f->h2);
}

void
h2_client_on_event(struct downstream *f, unsigned events_)
{
	struct h2_client *c = f->h2;
	int rc = 0;

	if (events_ & WATCH_WRITE) {
		c->blocked = false;
		rc = h2_link_writable(&c->link);
	}
	if (rc == 0 && events_ & (WATCH_READ | WATCH_HUP))
		rc = h2_link_read(&c->link, events_);
	if (rc == -EPROTO) {
		client_failed(c); /* what is left to say is flushed */
	} else if (rc < 0) {
		count(&f->worker->counters.client_lost, c->n_streams > 0);
		downstream_close(f, c->n_streams > 0);
	}
}

void
h2_client_on_time(struct downstream *f)
{
	struct h2_client *c = f->h2;

	if (c->blocked || c->leaving) {
		count(&f->worker->counters.timeouts, 1);
		downstream_close(f, true);
		return;
	}
	if (!c->rested && !c->draining) {
		c->rested = true;
		h2_rest(c->link.h2);
		expiry_set(&f->worker->expiries, &f->expiry, SPAN_IDLE, f->worker->now_ms);
		memory_settle(f);
		return;
	}
	h2_goaway(c->link.h2, H2_NO_ERROR);
	c->leaving = true;
	h2_link_touch(&c->link);
}

void
h2_client_drain(struct downstream *f)
{
	struct h2_client *c = f->h2;

	if (c->draining || c->leaving)
		return;
	c->draining = true;
	h2_drain(c->link.h2);
	h2_link_touch(&c->link);
	/* a round trip later no request is on its way that does not know it */
	expiry_set(&f->worker->expiries, &f->expiry, SPAN_PROBE, f->worker->now_ms);
}

void
h2_client_free(struct downstream *f)
{
	struct h2_client *c = take_ptr(&f->h2);

	while (!list_empty(&c->streams))
		h2_stream_client_gone(
			container_of(c->streams.next, struct h2_stream, node), H2_CANCEL);
	h2_link_close(&c->link);
	free(c);
}

void
h2_client_count(struct h2_client *c, int by)
{
	c->n_streams = (unsigned)((int)c->n_streams + by);
	h2_link_touch(&c->link);
}

size_t
h2_client_held(const struct downstream *f)
{
	struct node *all = &f->h2->streams;
	size_t n = h2_held(f->h2->link.h2);

	for (struct node *at = all->next; at != all; at = at->next)
		n += h2_stream_held(container_of(at, struct h2_stream, node));
	return n;
}

void
h2_client_recheck(struct downstream *f, bool (*denied)(struct h2_stream *st, char *reason))
{
	struct node *all = &f->h2->streams;
	char reason[PERMIT_REASON_MAX];

	for (struct node *at = all->next, *next; at != all; at = next) {
		struct h2_stream *st = container_of(at, struct h2_stream, node);

		next = at->next;
		if (st->ex != NULL && denied(st, reason))
			h2_stream_deny(st, reason);
	}
}
