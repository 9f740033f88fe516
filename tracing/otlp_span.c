#include "tracing/otlp_span.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "model/json.h"
#include "model/service.h"

enum { KIND_SERVER = 2, KIND_CLIENT = 3, STATUS_ERROR = 2 };
/* Span.flags: whether the parent belongs to another process */
enum { REMOTE_KNOWN = 0x100, REMOTE = 0x200 };

static void
otlp_span_begin(struct otlp_list *l, const char *key)
{
	buf_printf(l->out, "%s{\"key\":\"%s\",\"value\":{", l->comma, key);
	l->comma = ",";
}

void
otlp_text(struct otlp_list *l, const char *key, const char *value)
{
	otlp_span_begin(l, key);
	buf_adds(l->out, "\"stringValue\":");
	json_add_text(l->out, value);
	buf_adds(l->out, "}}");
}

void
otlp_number(struct otlp_list *l, const char *key, uint64_t value)
{
	otlp_span_begin(l, key);
	buf_printf(l->out, "\"intValue\":\"%llu\"}}",
		(unsigned long long)MIN(value, (uint64_t)INT64_MAX));
}

static void
otlp_span_address(struct otlp_list *l, const char *key, const struct in6_addr *ip)
{
	char is[IP_TEXT_MAX];

	otlp_text(l, key, ip_text(ip, is));
}

/* --- a span --------------------------------------------------------------------------------- */

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

/* The methods of RFC 9110 and PATCH; there may be any number of others, which must not become span
 * names. */
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

/* "-" as the first letter: nobody ended it early. */
static bool
ended_early(const struct trace_span *s)
{
	return s->end[0] != '\0' && s->end[0] != '-';
}

/* Without the query, which may contain secrets. The target * is not a path: RFC 9112 section
 * 3.3. */
static void
write_url(struct otlp_list *l, const struct trace_span *s)
{
	const char *path = s->path[0] == '*' ? "" : s->path;
	auto_free char *url = s->port == 80 ? xasprintf("http://%s%s", s->host, path)
					    : xasprintf("http://%s:%u%s", s->host, s->port, path);

	otlp_text(l, "url.full", url);
	otlp_text(l, "server.address", s->host);
	otlp_number(l, "server.port", s->port);
}

void
otlp_method(struct otlp_list *l, const struct trace_span *s)
{
	bool known = known_method(s->method);

	otlp_text(l, "http.request.method", known ? s->method : "_OTHER");
	if (!known)
		otlp_text(l, "http.request.method_original", s->method);
}

void
otlp_status(struct otlp_list *l, const struct trace_span *s)
{
	if (s->status != 0)
		otlp_number(l, "http.response.status_code", s->status);
}

static void
write_service(struct otlp_list *l, const struct trace_span *s)
{
	if (s->service[0] == '\0')
		return;
	otlp_text(l, "k8s.namespace.name", s->namespace);
	otlp_text(l, "edgeway.service", s->service);
}

/* "": no error. For a client's span 4xx is an error too, for a server's only 5xx. */
static const char *
error_of(const struct trace_span *s, char text[8])
{
	bool server = s->part == TRACE_SERVED || s->part == TRACE_ASKED;

	snprintf(text, 8, "%u", s->grpc > 1 ? s->grpc - 1u : s->status);
	if (s->grpc > 1 || s->status >= (server ? 500 : 400))
		return text;
	if (s->carried == NULL)
		return ended_early(s) ? s->end : "";
	return s->carried->broken ? (s->status == 0 ? "cancelled" : "broken") : "";
}

/* --- the proxy: requests and connections ---------------------------------------------------- */

static void
write_endpoint(struct otlp_list *l, const struct trace_span *s)
{
	if (!s->has_endpoint)
		return;
	otlp_span_address(l, "network.peer.address", &s->endpoint_ip);
	otlp_number(l, "network.peer.port", s->endpoint_port);
	otlp_text(l, "edgeway.via", s->endpoint_far ? "tunnel" : "direct");
}

static void
write_client(struct otlp_list *l, const struct trace_span *s)
{
	otlp_span_address(l, "client.address", &s->client_ip);
	otlp_number(l, "client.port", s->client_port);
	write_service(l, s);
	write_endpoint(l, s);
}

static void
write_end(struct otlp_list *l, const struct trace_span *s)
{
	otlp_text(l, "edgeway.end", s->end[0] != '\0' ? s->end : "--");
}

void
otlp_sizes(struct otlp_list *l, const struct trace_span *s)
{
	otlp_number(l, "http.request.body.size", s->bytes_up);
	otlp_number(l, "http.response.body.size", s->bytes_down);
}

void
otlp_bytes(struct otlp_list *l, const struct trace_span *s)
{
	otlp_number(l, "edgeway.bytes.sent", s->bytes_up);
	otlp_number(l, "edgeway.bytes.received", s->bytes_down);
}

static void
otlp_span_request(struct otlp_list *l, const struct trace_span *s)
{
	otlp_method(l, s);
	write_url(l, s);
	otlp_text(l, "network.protocol.name", "http");
	otlp_text(l, "network.protocol.version", s->http2 ? "2" : "1.1");
	write_client(l, s);
	otlp_status(l, s);
	if (s->grpc != 0) {
		otlp_text(l, "rpc.system", "grpc");
		otlp_number(l, "rpc.grpc.status_code", s->grpc - 1u);
	}
	write_end(l, s);
	otlp_sizes(l, s);
	otlp_number(l, "edgeway.retries", s->retries);
}

static void
otlp_span_relayed(struct otlp_list *l, const struct trace_span *s)
{
	otlp_text(l, "network.transport", "tcp");
	otlp_text(l, "server.address", s->host);
	otlp_number(l, "server.port", s->port);
	write_client(l, s);
	write_end(l, s);
	otlp_bytes(l, s);
	otlp_number(l, "edgeway.retries", s->retries);
}

/* --- all kinds of spans --------------------------------------------------------------------- */

static const struct {
	const char *name; /* NULL: the method */
	int kind;
	void (*write)(struct otlp_list *l, const struct trace_span *s);
} parts[TRACE_PARTS] = {
	[TRACE_REQUEST] = {NULL, KIND_CLIENT, otlp_span_request},
	[TRACE_RELAY] = {"tcp", KIND_CLIENT, otlp_span_relayed},
	[TRACE_SERVED] = {NULL, KIND_SERVER, otlp_served},
	[TRACE_ASKED] = {NULL, KIND_SERVER, otlp_asked},
	[TRACE_LED] = {"tcp", KIND_CLIENT, otlp_led},
};

const char *
otlp_scope(const struct trace_span *s)
{
	switch ((enum trace_part)s->part) {
	case TRACE_SERVED:
		return "edgeway.tunnel";
	case TRACE_ASKED:
	case TRACE_LED:
		return "edgeway.ingress";
	default:
		return "edgeway.lb";
	}
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
		[TRACE_TLS] = "edgeway.tls_failed",
	};
	struct otlp_list l = {out, ""};

	buf_printf(out, "{\"timeUnixNano\":\"%llu\",\"name\":\"%s\",\"attributes\":[",
		(unsigned long long)unix_ns(s, e->at_us), names[e->what]);
	otlp_span_address(&l, "network.peer.address", &e->ip);
	otlp_number(&l, "network.peer.port", e->port);
	buf_adds(out, "]}");
}

static void
write_events(struct buf *out, const struct trace_span *s)
{
	buf_adds(out, "],\"events\":[");
	for (unsigned i = 0; i < s->n_events; i++) {
		buf_adds(out, i > 0 ? "," : "");
		write_event(out, s, &s->events[i]);
	}
	buf_adds(out, "]");
	if (s->n_lost > 0)
		buf_printf(out, ",\"droppedEventsCount\":%u", s->n_lost);
}

static const char *
name_of(const struct trace_span *s)
{
	if (parts[s->part].name != NULL)
		return parts[s->part].name;
	return known_method(s->method) ? s->method : "HTTP";
}

void
otlp_span(struct buf *out, const struct trace_span *s)
{
	struct otlp_list l = {out, ""};
	char text[8];
	const char *error = error_of(s, text);

	write_ids(out, s);
	buf_adds(out, ",\"name\":");
	json_add_text(out, name_of(s));
	buf_printf(out,
		",\"kind\":%d,\"startTimeUnixNano\":\"%llu\",\"endTimeUnixNano\":\"%llu\","
		"\"attributes\":[",
		parts[s->part].kind, (unsigned long long)s->begin_ns,
		(unsigned long long)unix_ns(s, s->end_us));
	parts[s->part].write(&l, s);
	if (error[0] != '\0')
		otlp_text(&l, "error.type", error);
	write_events(out, s);
	buf_adds(out, ",\"status\":{");
	if (error[0] != '\0')
		buf_printf(out, "\"code\":%d", STATUS_ERROR);
	buf_adds(out, "}}");
}
