#include "tracing/otlp_span.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "model/json.h"
#include "model/service.h"

enum { KIND_CLIENT = 3, STATUS_ERROR = 2 };
enum { REMOTE_KNOWN = 0x100, REMOTE = 0x200 }; /* Span.flags: is the parent another process's? */

static void
begin(struct otlp_list *l, const char *key)
{
	buf_printf(l->out, "%s{\"key\":\"%s\",\"value\":{", l->comma, key);
	l->comma = ",";
}

void
otlp_text(struct otlp_list *l, const char *key, const char *value)
{
	begin(l, key);
	buf_adds(l->out, "\"stringValue\":");
	json_add_text(l->out, value);
	buf_adds(l->out, "}}");
}

static void
number(struct otlp_list *l, const char *key, uint64_t value)
{
	begin(l, key);
	buf_printf(l->out, "\"intValue\":\"%llu\"}}",
		(unsigned long long)MIN(value, (uint64_t)INT64_MAX));
}

static void
address(struct otlp_list *l, const char *key, const struct in6_addr *ip)
{
	char is[INET6_ADDRSTRLEN];

	if (IN6_IS_ADDR_V4MAPPED(ip)) {
		inet_ntop(AF_INET, &ip->s6_addr[12], is, sizeof is);
	} else {
		inet_ntop(AF_INET6, ip, is, sizeof is);
	}
	otlp_text(l, key, is);
}

static void
ipv4(struct otlp_list *l, const char *key, uint32_t ip)
{
	struct in_addr in = {.s_addr = htonl(ip)};
	char is[INET_ADDRSTRLEN];

	otlp_text(l, key, inet_ntop(AF_INET, &in, is, sizeof is));
}

/* --- a span -------------------------------------------------------------------- */

static void
write_ids(struct buf *out, const struct trace_span *s)
{
	char id[2 * TRACE_ID_BYTES + 1];

	trace_hex(id, s->context.trace, sizeof s->context.trace);
	buf_printf(out, "{\"traceId\":\"%s\"", id);
	trace_hex(id, s->context.span, sizeof s->context.span);
	buf_printf(out, ",\"spanId\":\"%s\"", id);
	if (s->has_parent) {
		trace_hex(id, s->parent, sizeof s->parent);
		buf_printf(out, ",\"parentSpanId\":\"%s\"", id);
	}
	buf_printf(out, ",\"flags\":%u",
		s->context.flags | REMOTE_KNOWN | (s->has_parent ? (unsigned)REMOTE : 0));
}

/* Those of RFC 9110 and PATCH; of others there may be any number, which names of spans must not have. */
static bool
known_method(const char *method)
{
	static const char *const known[] = {
		"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strcmp(known[i], method) == 0)
			return true;
	}
	return false;
}

static uint64_t
unix_ns(const struct trace_span *s, uint64_t at_us)
{
	return s->begin_ns + (at_us - s->begin_us) * 1000;
}

/* "-" in front: nobody ended it early. */
static bool
ended_early(const struct trace_span *s)
{
	return s->end[0] != '\0' && s->end[0] != '-';
}

/* Without the query, which may hold what is secret. The target * is no path: RFC 9112 section 3.3. */
static void
write_url(struct otlp_list *l, const struct trace_span *s)
{
	const char *path = s->path[0] == '*' ? "" : s->path;
	auto_free char *url = s->port == 80 ? xasprintf("http://%s%s", s->host, path)
					    : xasprintf("http://%s:%u%s", s->host, s->port, path);

	otlp_text(l, "url.full", url);
	otlp_text(l, "server.address", s->host);
	number(l, "server.port", s->port);
}

static void
write_request(struct otlp_list *l, const struct trace_span *s)
{
	bool known = known_method(s->method);

	otlp_text(l, "http.request.method", known ? s->method : "_OTHER");
	if (!known)
		otlp_text(l, "http.request.method_original", s->method);
	write_url(l, s);
	otlp_text(l, "network.protocol.name", "http");
	otlp_text(l, "network.protocol.version", "1.1");
	ipv4(l, "client.address", s->client_ip);
	number(l, "client.port", s->client_port);
	if (s->service[0] != '\0') {
		otlp_text(l, "k8s.namespace.name", s->namespace);
		otlp_text(l, "edgeway.service", s->service);
	}
}

static void
write_answer(struct otlp_list *l, const struct trace_span *s)
{
	char status[8];

	if (s->has_endpoint) {
		address(l, "network.peer.address", &s->endpoint_ip);
		number(l, "network.peer.port", s->endpoint_port);
		otlp_text(l, "edgeway.via", s->endpoint_far ? "tunnel" : "direct");
	}
	if (s->status != 0)
		number(l, "http.response.status_code", s->status);
	snprintf(status, sizeof status, "%u", s->status);
	if (ended_early(s) || s->status >= 400)
		otlp_text(l, "error.type", s->status >= 400 ? status : s->end);
	otlp_text(l, "edgeway.end", s->end[0] != '\0' ? s->end : "--");
	number(l, "http.request.body.size", s->bytes_up);
	number(l, "http.response.body.size", s->bytes_down);
	number(l, "edgeway.retries", s->retries);
}

static void
write_event(struct buf *out, const struct trace_span *s, const struct trace_event *e)
{
	static const char *const names[] = {
		[TRACE_DIAL] = "edgeway.dial",
		[TRACE_REUSE] = "edgeway.reuse",
		[TRACE_CONNECTED] = "edgeway.connected",
		[TRACE_REFUSED] = "edgeway.refused",
		[TRACE_SILENT] = "edgeway.silent",
		[TRACE_RESET] = "edgeway.reset",
		[TRACE_STALE] = "edgeway.stale",
		[TRACE_EJECTED] = "edgeway.ejected",
	};
	struct otlp_list l = {out, ""};

	buf_printf(out, "{\"timeUnixNano\":\"%llu\",\"name\":\"%s\",\"attributes\":[",
		(unsigned long long)unix_ns(s, e->at_us), names[e->what]);
	address(&l, "network.peer.address", &e->ip);
	number(&l, "network.peer.port", e->port);
	buf_adds(out, "]}");
}

void
otlp_span(struct buf *out, const struct trace_span *s)
{
	struct otlp_list l = {out, ""};

	write_ids(out, s);
	buf_adds(out, ",\"name\":");
	json_add_text(out, known_method(s->method) ? s->method : "HTTP");
	buf_printf(out,
		",\"kind\":%d,\"startTimeUnixNano\":\"%llu\",\"endTimeUnixNano\":\"%llu\","
		"\"attributes\":[",
		KIND_CLIENT, (unsigned long long)s->begin_ns,
		(unsigned long long)unix_ns(s, s->end_us));
	write_request(&l, s);
	write_answer(&l, s);
	buf_adds(out, "],\"events\":[");
	for (unsigned i = 0; i < s->n_events; i++) {
		buf_adds(out, i > 0 ? "," : "");
		write_event(out, s, &s->events[i]);
	}
	buf_adds(out, "]");
	if (s->n_lost > 0)
		buf_printf(out, ",\"droppedEventsCount\":%u", s->n_lost);
	buf_adds(out, ",\"status\":{");
	if (ended_early(s) || s->status >= 400)
		buf_printf(out, "\"code\":%d", STATUS_ERROR);
	buf_adds(out, "}}");
}
