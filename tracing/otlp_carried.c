#include "tracing/otlp_span.h"

#include <string.h>

/* Spans of tunnel streams: the hub's part and the node's part. */

static void
otlp_carried_known(struct otlp_list *l, const char *key, const char *value)
{
	if (value[0] != '\0')
		otlp_text(l, key, value);
}

static void
write_carried(struct otlp_list *l, const struct trace_span *s)
{
	const struct trace_carried *c = s->carried;

	otlp_text(l, "server.address", s->host);
	otlp_number(l, "server.port", s->port);
	otlp_carried_known(l, "client.address", c->client);
	if (c->client_port != 0)
		otlp_number(l, "client.port", c->client_port);
	otlp_carried_known(l, "edgeway.door", c->door);
	otlp_carried_known(l, "edgeway.caller", c->caller);
	otlp_carried_known(l, "edgeway.node", c->node);
	otlp_carried_known(l, "edgeway.beside", c->meant);
	otlp_carried_known(l, "edgeway.replica", c->replica);
	otlp_carried_known(l, "edgeway.allowed.as", c->kind);
	otlp_carried_known(l, "edgeway.to", c->to);
	otlp_carried_known(l, "edgeway.end", c->why);
}

static const char *
otlp_carried_via(const struct trace_carried *c)
{
	if (c->node[0] == '\0')
		return "hub";
	if (c->meant[0] != '\0')
		return "neighbour";
	return c->replica[0] != '\0' ? "replica" : "tunnel";
}

void
otlp_served(struct otlp_list *l, const struct trace_span *s)
{
	otlp_method(l, s);
	otlp_text(l, "network.protocol.name", "http");
	otlp_text(l, "network.protocol.version", "2");
	write_carried(l, s);
	otlp_status(l, s);
	otlp_bytes(l, s);
}

void
otlp_asked(struct otlp_list *l, const struct trace_span *s)
{
	bool is_connect = strcmp(s->method, "CONNECT") == 0;

	otlp_method(l, s);
	if (!is_connect) {
		otlp_text(l, "url.scheme", "http");
		otlp_text(l, "url.path", s->path[0] == '*' ? "" : s->path);
	}
	otlp_text(l, "network.protocol.name", "http");
	otlp_text(l, "network.protocol.version", s->carried->minor_0 ? "1.0" : "1.1");
	write_carried(l, s);
	if (s->has_endpoint)
		otlp_text(l, "edgeway.via", otlp_carried_via(s->carried));
	otlp_status(l, s);
	(is_connect ? otlp_bytes : otlp_sizes)(l, s);
}

void
otlp_led(struct otlp_list *l, const struct trace_span *s)
{
	otlp_text(l, "network.transport", "tcp");
	write_carried(l, s);
	if (s->has_endpoint)
		otlp_text(l, "edgeway.via", otlp_carried_via(s->carried));
	otlp_bytes(l, s);
}
