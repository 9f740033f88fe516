#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/http/own_host.h"
#include "hub/ingress/client_conn.h"

enum { HTTP_PORT = 80, ANSWER_MAX = CALLER_REASON_MAX + 512 };

static const char tunnel_host[] = "x-tunnel-proxy-host", tunnel_dest[] = "x-tunnel-proxy-dest",
		  proxy_authorization[] = "proxy-authorization";

/* The target that a request names. */
struct asked {
	char host[CALLER_HOST_MAX + 1];
	uint16_t port;
	char dest[ADDR_TEXT_MAX]; /* "": none */
	bool by_field; /* by X-Tunnel-Proxy-Host, not by Host */
};

void
client_conn_http_refuse(struct client_conn *v, unsigned status, const char *line, bool close)
{
	char text[ANSWER_MAX];
	const struct http1_error error = {
		.status = (int)status,
		.line = line,
		.retry_after = status == 503 ? 1 : 0,
		.to_head = exchange_is_head(v),
	};
	const struct http1_reply reply = {.close = close};
	ssize_t n = http1_emit_error(text, sizeof text, &error, &reply);

	client_conn_audit(v, status, 0, 0, line);
	exchange_free(v);
	grant_end(&v->grant);
	if (n > 0)
		buf_add(&v->out, text, (size_t)n);
	if (close || client_conn_over(v)) {
		client_conn_linger(v);
		return;
	}
	v->state = CLIENT_CONN_HEAD;
	client_conn_timer(v, CLIENT_CONN_IDLE_MS);
	client_conn_http_input(v);
}

/* --- the target ----------------------------------------------------------------------------- */

static bool
set_host(struct asked *a, struct http1_str s)
{
	if (s.len == 0 || s.len > CALLER_HOST_MAX)
		return false;
	memcpy(a->host, s.at, s.len);
	a->host[s.len] = '\0';
	return true;
}

/* Reads host[:port], already checked by http1_valid_host; without a port: `standard`. */
static bool
read_authority(struct asked *a, struct http1_str s, uint16_t standard)
{
	const char *end = s.at + s.len, *colon;

	a->port = standard;
	if (s.len > 0 && s.at[0] == '[') {
		const char *close = memchr(s.at, ']', s.len);

		colon = close + 1 < end ? close + 1 : NULL;
		s = (struct http1_str){s.at + 1, (size_t)(close - s.at) - 1};
	} else {
		colon = memchr(s.at, ':', s.len);
		if (colon != NULL)
			s.len = (size_t)(colon - s.at);
	}
	if (colon != NULL && colon + 1 < end) {
		unsigned port = 0;

		for (const char *at = colon + 1; at < end; at++)
			port = port * 10 + (unsigned)(*at - '0');
		a->port = (uint16_t)port;
	}
	return set_host(a, s) && a->port != 0;
}

bool
client_conn_http_authority(const char *text, char host[CALLER_HOST_MAX + 1], uint16_t *port)
{
	const struct http1_str s = {text, strlen(text)};
	struct asked a = {0};

	if (s.len == 0 || !http1_valid_host(s) || !read_authority(&a, s, HTTP_PORT))
		return false;
	memcpy(host, a.host, sizeof a.host);
	*port = a.port;
	return true;
}

static struct http1_field *
find_field(struct http1_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (http1_is(h->fields[i].name, name))
			return &h->fields[i];
	return NULL;
}

/* Takes a field that is only for the hub: it is never forwarded. */
static struct http1_str
take_field(struct http1_head *h, const char *name)
{
	struct http1_str value = {"", 0};

	for (size_t i = 0; i < h->n_fields; i++)
		if (http1_is(h->fields[i].name, name)) {
			if (value.len == 0)
				value = h->fields[i].value;
			h->fields[i].hop = true;
		}
	return value;
}

/* Yurt's form: one field names the node, another one what to dial there. */
static bool
read_tunnel_fields(struct asked *a, struct http1_head *h)
{
	struct http1_str host = take_field(h, tunnel_host), dest = take_field(h, tunnel_dest);

	if (host.len == 0)
		return true;
	a->by_field = true;
	if (!http1_valid_host(host) || !read_authority(a, host, a->port))
		return false;
	if (dest.len >= sizeof a->dest)
		return false;
	memcpy(a->dest, dest.at, dest.len);
	a->dest[dest.len] = '\0';
	return true;
}

static bool
read_asked(struct asked *a, struct http1_head *h)
{
	*a = (struct asked){0};
	if (h->host.len == 0 && find_field(h, tunnel_host) == NULL)
		return false;
	if (h->host.len > 0 && !read_authority(a, h->host, h->is_connect ? 0 : HTTP_PORT))
		return false;
	return read_tunnel_fields(a, h);
}

/*
 * With X-Tunnel-Proxy-Host the target is not in Host, so a web page of another origin could send
 * requests here from a browser, under a name of its own that resolves to this address (DNS
 * rebinding). Such a request has that name in Host. A request with a full URL in its request line
 * comes from a client that knows this to be a proxy.
 */
static bool
is_for_us(const struct client_conn *v, const struct http1_head *h, const struct asked *a)
{
	const struct ingress_config *c = &v->ingress->config;
	const char *const node[] = {a->host, NULL}, *target = buf_at(&v->in) + h->method.len + 1;

	return !a->by_field || h->host.len == 0 || *target != '/' || own_host(h->host, node) ||
		(c->known_as != NULL && c->known_as(c->arg, h->host));
}

/* A bearer token names the caller from here on. False: the token is unknown. */
static bool
read_token(struct client_conn *v, struct http1_head *h)
{
	struct http1_str s = take_field(h, proxy_authorization);
	struct caller before, caller;
	bool known = s.len == 0;

	caller = *caller_load(v->caller, &before);
	caller.token[0] = caller.token_hash[0] = '\0';
	if (s.len >= 8 && strncasecmp(s.at, "bearer ", 7) == 0)
		known = acl_use_token(
			v->ingress->config.grants->access, s.at + 7, s.len - 7, &caller);
	if (strcmp(caller.token, before.token) != 0 ||
		strcmp(caller.token_hash, before.token_hash) != 0) {
		free(v->caller);
		v->caller = caller_keep(&caller);
	}
	return known;
}

/* --- header sections ------------------------------------------------------------------------ */

static void
start_request(struct client_conn *v, struct http1_head *h, size_t head_len)
{
	bool secure = head_len > h->method.len + 9 &&
		strncasecmp(buf_at(&v->in) + h->method.len + 1, "https://", 8) == 0;
	char client[INET6_ADDRSTRLEN] = "";
	struct asked asked;
	struct caller caller;

	if (v->door->kind == DOOR_EGRESS && !h->is_connect) {
		client_conn_http_refuse(v, 405, "this listener serves CONNECT alone", true);
		return;
	}
	if (secure) {
		client_conn_http_refuse(v, 400, "https goes through CONNECT", true);
		return;
	}
	if (!read_token(v, h)) {
		client_conn_http_refuse(v, 403, "the token is not known here", true);
		return;
	}
	if (!read_asked(&asked, h)) {
		client_conn_http_refuse(
			v, 400, "expected HOST:PORT of a node, a pod or a service", true);
		return;
	}
	if (!is_for_us(v, h, &asked)) {
		client_conn_http_refuse(v, 421,
			"with X-Tunnel-Proxy-Host, Host must be an address of the hub, localhost, "
			"a "
			"name in tls.names, or the node",
			true);
		return;
	}
	v->passes = http1_passes(h);
	if (client_conn_traces(v))
		client_conn_trace_begin(v, h, asked.host, asked.port);
	if (!h->is_connect) {
		const struct addr *from = &caller_load(v->caller, &caller)->addr;

		if (from->sa.sa_family == AF_INET)
			inet_ntop(AF_INET, &from->in.sin_addr, client, sizeof client);
		else if (from->sa.sa_family == AF_INET6)
			inet_ntop(AF_INET6, &from->in6.sin6_addr, client, sizeof client);
		exchange_begin(v, client, asked.host, asked.port,
			asked.dest[0] != '\0' ? asked.dest : NULL);
	}
	buf_consume(&v->in, head_len);
	if (client_conn_reach(v, asked.host, asked.port, asked.dest[0] != '\0' ? asked.dest : NULL))
		client_conn_update(v);
}

void
client_conn_http_input(struct client_conn *v)
{
	struct http1_head *h = &v->ingress->head;
	size_t blank;
	ssize_t n;

	if (v->door->kind == DOOR_HTTP && !v->talked && !v->eof && client_conn_h2_input(v))
		return;
	/* Answers that nobody reads: the next request waits, or its own would be added to them. */
	if (buf_len(&v->out) > 0 && !client_conn_flush(v))
		return;
	if (buf_len(&v->out) >= CLIENT_CONN_OUT_FULL) {
		client_conn_wait(v);
		return;
	}
	if (v->scanned == 0 && (blank = http1_skip_blank(buf_at(&v->in), buf_len(&v->in))) > 0)
		buf_consume(&v->in, blank);
	if (client_conn_over(v)) {
		client_conn_part(v);
		return;
	}
	if (buf_len(&v->in) == 0) {
		client_conn_update(v);
		return;
	}
	n = http1_read_request(h, buf_at(&v->in), buf_len(&v->in), &v->scanned, true);
	v->talked |= n != 0;
	if (n == 0 && v->eof)
		client_conn_http_refuse(
			v, 400, "the connection ended within the request's head", true);
	else if (n == 0)
		client_conn_update(v);
	else if (n < 0)
		client_conn_http_refuse(v, (unsigned)-n, h->why, true);
	else
		start_request(v, h, (size_t)n);
}

void
client_conn_http_reached(struct client_conn *v, const struct connector_answer *answer)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";

	if (answer->status != 200) {
		client_conn_http_refuse(v, answer->status, answer->reason, !exchange_keeps(v));
		return;
	}
	if (v->exchange != NULL) {
		v->state = CLIENT_CONN_EXCHANGE;
		exchange_reached(v, answer->stream, answer->use);
		return;
	}
	buf_add(&v->out, ok, sizeof ok - 1);
	client_conn_greet(v, answer->stream);
}
