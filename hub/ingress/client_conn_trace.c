#include <arpa/inet.h>
#include <string.h>

#include "hub/ingress/client_conn.h"

/* The span of a client's request: from the moment when its target is known to the audit line. */

static void
client_conn_trace_set(char *to, size_t size, const char *from)
{
	span_copy(to, size, from, strlen(from));
}

static void
set_client(struct trace_carried *c, const struct addr *from)
{
	if (from->sa.sa_family == AF_INET)
		inet_ntop(AF_INET, &from->in.sin_addr, c->client, sizeof c->client);
	else if (from->sa.sa_family == AF_INET6)
		inet_ntop(AF_INET6, &from->in6.sin6_addr, c->client, sizeof c->client);
	if (c->client[0] != '\0')
		c->client_port = addr_port(from);
}

void
client_conn_trace_begin(
	struct client_conn *v, const struct http1_head *h, const char *host, uint16_t port)
{
	char text[ACCESS_NAME_MAX + 8];
	struct caller caller;
	struct trace_context parent;
	bool has_parent = h != NULL && span_parent(h, &parent);
	struct trace_moment now;
	struct trace_span *s;

	trace_now(&now);
	s = span_begin(v->ingress->config.spans, h != NULL ? TRACE_ASKED : TRACE_LED,
		has_parent ? &parent : NULL, &now);
	if (s == NULL)
		return;
	if (h != NULL) {
		span_request(s, h, host);
		s->carried->minor_0 = h->minor == 0;
	}
	client_conn_trace_set(s->host, sizeof s->host, host);
	s->port = port;
	client_conn_trace_set(s->carried->door, sizeof s->carried->door, v->door->name);
	client_conn_trace_set(s->carried->caller, sizeof s->carried->caller,
		caller_text(caller_load(v->caller, &caller), text));
	set_client(s->carried, &caller.addr);
	v->span = s;
}

void
client_conn_trace_reached(struct client_conn *v, const struct connector_answer *answer)
{
	struct trace_carried *c = v->span->carried;

	if (answer->status != 200) {
		client_conn_trace_set(c->node, sizeof c->node, answer->node);
		return;
	}
	v->span->has_endpoint = true;
	client_conn_trace_set(c->node, sizeof c->node, answer->via);
	client_conn_trace_set(c->meant, sizeof c->meant, answer->final_node);
	client_conn_trace_set(c->replica, sizeof c->replica, answer->at);
}

void
client_conn_trace_end(struct client_conn *v, const struct client_conn_end *end)
{
	struct trace_span *s = v->span;
	struct trace_carried *c = s->carried;
	bool gone = end->status == 499; /* no status was sent */

	if (s->status == 0 && !gone)
		s->status = (uint16_t)end->status;
	c->broken = gone ||
		(end->status == 200 ? strcmp(end->why, "done") != 0 : s->status != end->status);
	s->bytes_up = end->to_edge;
	s->bytes_down = end->from_edge;
	client_conn_trace_set(c->why, sizeof c->why, end->why);
	span_end(v->ingress->config.spans, &v->span, trace_clock_us());
}

void
ingress_end_spans(struct ingress *i)
{
	struct client_conn *v;

	TAILQ_FOREACH(v, &i->visits, entry)
		if (v->span != NULL)
			client_conn_trace_end(v,
				&(struct client_conn_end){
					200, 0, 0, "goes on while the hub stops"});
}
