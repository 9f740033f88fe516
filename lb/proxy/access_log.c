#include "lb/proxy/access_log.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/log.h"
#include "lb/proxy/answer.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/tap.h"

enum { FLUSH_BYTES = 16 * 1024, REQUEST_MAX_BYTES = 1024, ID_MAX_BYTES = 128 };

void
access_log_begin(struct exchange *ex)
{
	const struct worker *w = ex->downstream->worker;

	ex->begin_us = answer_clock_us();
	if (w->access_mode != ACCESS_OFF || w->tap != NULL)
		ex->access.begin_us = ex->begin_us;
}

void
access_log_connected(struct exchange *ex)
{
	struct access_log *a = &ex->access;

	if (a->begin_us == 0)
		return;
	a->connected_us = answer_clock_us();
	target_unref(&a->endpoint);
	a->endpoint = target_ref(exchange_target(ex));
	a->at_other = exchange_at_other(ex);
	if (ex->state == EXCHANGE_RELAYING && ex->downstream->worker->tap != NULL)
		tap_note(ex, TAP_OPEN);
}

void
access_log_first(struct exchange *ex)
{
	if (ex->access.begin_us != 0 && ex->access.first_us == 0)
		ex->access.first_us = answer_clock_us();
}

void
access_log_end(struct exchange *ex, const char *code)
{
	if (ex->access.end[0] == '\0')
		memcpy(ex->access.end, code, sizeof ex->access.end);
}

/* --- the line ------------------------------------------------------------------------------- */

struct entry {
	struct buf *to;
	bool json;
};

static void
access_log_key(struct entry *l, const char *name)
{
	buf_printf(l->to, l->json ? ",\"%s\":" : " %s=", name);
}

/* Quoted, also in text, because the peer chose the value. */
static void
access_log_quoted(struct entry *l, const char *name, struct http1_str value)
{
	access_log_key(l, name);
	buf_adds(l->to, "\"");
	for (size_t i = 0; i < value.len; i++) {
		unsigned char c = (unsigned char)value.at[i];

		if (c == '"' || c == '\\')
			buf_printf(l->to, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			buf_printf(l->to, l->json ? "\\u%04x" : "\\x%02x", c);
		else
			buf_add(l->to, &value.at[i], 1);
	}
	buf_adds(l->to, "\"");
}

/* Text that cannot contain a quote: addresses, Kubernetes names. */
static void
access_log_plain(struct entry *l, const char *name, const char *value)
{
	access_log_key(l, name);
	buf_printf(l->to, l->json ? "\"%s\"" : "%s", value);
}

static void
access_log_number(struct entry *l, const char *name, uint64_t value)
{
	access_log_key(l, name);
	buf_printf(l->to, "%llu", (unsigned long long)value);
}

/* Which rule of the service's routes the request followed, and to which Service. */
static void
access_log_route(struct entry *l, const struct exchange *ex)
{
	const struct http_route_rule *rule = ex->rule;
	const struct http_route_backend *b = ex->backend;

	if (rule == NULL || *rule->route == '\0')
		return;
	access_log_key(l, "route");
	buf_printf(l->to, l->json ? "\"%s/%u\"" : "%s/%u", rule->route, rule->index);
	if (b == NULL)
		return;
	access_log_key(l, "backend");
	buf_printf(l->to, l->json ? "\"%s/%s:%u\"" : "%s/%s:%u", b->ns, b->name, b->port);
}

/* Time since the begin; left out if that point was not reached. */
static void
access_log_took(struct entry *l, const char *name, const struct access_log *a, uint64_t at_us)
{
	uint64_t us = at_us - a->begin_us;

	if (at_us == 0)
		return;
	access_log_key(l, name);
	buf_printf(l->to, "%llu.%03llu", (unsigned long long)(us / 1000),
		(unsigned long long)(us % 1000));
}

static void
open_line(struct entry *l, const struct downstream *f)
{
	const struct group *g = f->group;
	char when[LOG_TIME_MAX], client[ADDR_TEXT_MAX], to[ADDR_TEXT_MAX], service[512];
	const struct addr from = addr_of(&f->client, f->client_port),
			  dst = addr_ipv4(g->key.ip, g->key.port);

	log_time(when);
	buf_printf(l->to,
		l->json ? "{\"time\":\"%s\",\"level\":\"access\",\"part\":\"lb\"" : "%s access lb:",
		when);
	access_log_plain(l, "client", addr_text(&from, client));
	access_log_plain(l, "to", addr_text(&dst, to));
	if (g->service != NULL) {
		snprintf(service, sizeof service, "%s/%s", g->service->namespace, g->service->name);
		access_log_plain(l, "service", service);
	}
}

static void
close_line(struct entry *l, struct worker *w)
{
	buf_adds(l->to, l->json ? "}\n" : "\n");
	w->access_lines++;
	if (buf_len(&w->access) >= FLUSH_BYTES)
		access_log_flush(w);
}

/* The first line of the head as sent to the endpoint, without the version. */
struct http1_str
access_log_request(const struct exchange *ex)
{
	const char *at = buf_at(&ex->head), *end = memchr(at, '\r', buf_len(&ex->head));
	size_t len = end != NULL ? (size_t)(end - at) : 0, version = sizeof " HTTP/1.1" - 1;

	return (struct http1_str){
		at, MIN(len > version ? len - version : 0, (size_t)REQUEST_MAX_BYTES)};
}

/* A field of the head as sent to the endpoint. `name`: "\r\nx-request-id: ". */
static struct http1_str
field_of(const struct exchange *ex, const char *name)
{
	const char *at = buf_at(&ex->head);
	size_t left = buf_len(&ex->head), len = strlen(name);
	const char *end;

	while (left > len && strncasecmp(at, name, len) != 0) {
		const char *next = memchr(at + 1, '\r', left - 1);

		if (next == NULL)
			return (struct http1_str){"", 0};
		left -= (size_t)(next - at);
		at = next;
	}
	if (left <= len)
		return (struct http1_str){"", 0};
	at += len;
	end = memchr(at, '\r', left - len);
	return (struct http1_str){
		at, end != NULL ? MIN((size_t)(end - at), (size_t)ID_MAX_BYTES) : 0};
}

/* The trace that was sent to the endpoint, whether or not it is recorded. */
static void
access_log_trace(struct entry *l, const struct exchange *ex)
{
	struct http1_str parent = field_of(ex, "\r\ntraceparent: ");
	struct trace_context c;
	char id[2 * TRACE_ID_BYTES + 1];

	if (!traceparent_parse(&c, parent.at, parent.len))
		return;
	trace_hex(id, c.trace, sizeof c.trace);
	access_log_plain(l, "trace", id);
	if (ex->span != NULL) {
		trace_hex(id, c.span, sizeof c.span);
		access_log_plain(l, "span", id);
	}
}

static bool
went_well(const struct access_log *a)
{
	return a->status < 400 && (a->end[0] == '\0' || a->end[0] == '-');
}

/* Returns whether this successful request is to be logged. It counts, so that no request pays for a
 * clock or a random number. */
static bool
access_log_sampled(struct worker *w)
{
	if (w->access_skip > 0) {
		w->access_skip--;
		return false;
	}
	w->access_skip = w->access_sample - 1;
	return true;
}

static bool
access_log_wanted(const struct exchange *ex)
{
	const struct access_log *a = &ex->access;
	struct worker *w = ex->downstream->worker;

	if (a->begin_us == 0 || ex->state == EXCHANGE_GREETING)
		return false;
	switch (w->access_mode) {
	case ACCESS_ALL:
		return !went_well(a) || access_log_sampled(w);
	case ACCESS_ERRORS:
		return !went_well(a);
	default:
		return false;
	}
}

/* How many requests of this kind the line stands for. */
static void
stands_for(struct entry *l, const struct worker *w, bool good)
{
	if (w->access_mode == ACCESS_ALL && w->access_sample > 1)
		access_log_number(l, "sample", good ? w->access_sample : 1);
}

void
access_log_write(struct exchange *ex)
{
	struct access_log *a = &ex->access;
	struct worker *w = ex->downstream->worker;
	struct entry l = {&w->access, log_format_now() == LOG_FORMAT_JSON};
	char endpoint[ADDR_TEXT_MAX];

	if (w->tap != NULL && a->begin_us != 0 && ex->state != EXCHANGE_GREETING)
		tap_note(ex, TAP_DONE);
	if (access_log_wanted(ex)) {
		open_line(&l, ex->downstream);
		access_log_route(&l, ex);
		if (a->endpoint != NULL)
			access_log_plain(
				&l, "endpoint", target_text(a->endpoint, a->at_other, endpoint));
		if (buf_len(&ex->head) > 0) {
			access_log_quoted(&l, "request", access_log_request(ex));
			access_log_quoted(&l, "id", field_of(ex, "\r\nx-request-id: "));
			access_log_trace(&l, ex);
			access_log_number(&l, "status", a->status);
		}
		access_log_plain(&l, "end", a->end[0] != '\0' ? a->end : "--");
		access_log_number(&l, "bytes_up", ex->body_sent);
		access_log_number(&l, "bytes_down", ex->body_received);
		access_log_took(&l, "connect_ms", a, a->connected_us);
		access_log_took(&l, "first_ms", a, a->first_us);
		access_log_took(&l, "total_ms", a, answer_clock_us());
		access_log_number(&l, "retries", exchange_retries(ex));
		stands_for(&l, w, went_well(a));
		close_line(&l, w);
	}
	target_unref(&a->endpoint);
	a->begin_us = 0;
}

void
access_log_refused(const struct downstream *f, int status)
{
	struct worker *w = f->worker;
	struct entry l = {&w->access, log_format_now() == LOG_FORMAT_JSON};

	if (w->access_mode == ACCESS_OFF)
		return;
	open_line(&l, f);
	access_log_number(&l, "status", (uint64_t)status);
	access_log_plain(&l, "end", status == 408 ? "cR" : "PR");
	stands_for(&l, w, false);
	close_line(&l, w);
}

void
access_log_flush(struct worker *w)
{
	if (buf_len(&w->access) == 0)
		return;
	if (!log_queue_put(w->lines, &w->access))
		count(&w->counters.access_dropped, w->access_lines);
	w->access_lines = 0;
}
