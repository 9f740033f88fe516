/* Spans as JSON for a collector, its answers, and the URLs that lead to one. */
#include "tracing/otlp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/json.h"
#include "model/service.h"
#include "tracing/body.h"
#include "tracing/collector.h"
#include "tracing/reply.h"

static struct in6_addr
v4(uint32_t ip)
{
	struct in6_addr a = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	ip = htonl(ip);
	memcpy(&a.s6_addr[12], &ip, sizeof ip);
	return a;
}

static struct trace_span
sample(void)
{
	struct trace_span s = {
		.begin_ns = 1800000000000000001,
		.begin_us = 5000,
		.end_us = 6500,
		.bytes_up = 3,
		.bytes_down = UINT64_MAX,
		.client_ip = {.s6_addr = {[10] = 0xff, 0xff, 172, 17, 0, 4}},
		.client_port = 53312,
		.port = 80,
		.status = 200,
		.has_endpoint = true,
		.endpoint_ip = v4(0xac110002),
		.endpoint_port = 8080,
		.method = "GET",
		.host = "web.shop",
		.path = "/x",
		.namespace = "shop",
		.service = "web",
		.n_events = 1,
		.events = {{6000, TRACE_CONNECTED, v4(0xac110002), 8080}},
	};

	assert_true(traceparent_parse(&s.context,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03", TRACEPARENT_LEN));
	return s;
}

#define TEXT(key, value) "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" value "\"}}"
#define INT(key, value) "{\"key\":\"" key "\",\"value\":{\"intValue\":\"" value "\"}}"
#define V EDGEWAY_VERSION
#define SCHEMA "\"schemaUrl\":\"https://opentelemetry.io/schemas/1.26.0\""
/* clang-format off */
#define HEAD \
	"{\"resourceSpans\":[{\"resource\":{\"attributes\":[" \
	TEXT("service.name", "edgeway-agent") "," TEXT("service.version", V) "," \
	TEXT("service.instance.id", "edge-1") "," TEXT("host.name", "edge-1") "," \
	TEXT("k8s.node.name", "edge-1") "]},\"scopeSpans\":[{\"scope\":{\"name\":\"edgeway.lb\",\"version\":\"" V \
	"\"},\"spans\":["
/* clang-format on */
#define TAIL "]," SCHEMA "}]," SCHEMA "}]}"

/* The text of the spans alone. */
static const char *
written(const struct trace_span *s)
{
	static struct otlp o;
	struct buf *out = &o.out;
	struct json j;
	const char *text;

	buf_fini(out);
	buf_init(out, BUF_UNLIMITED);
	otlp_begin(&o, &(struct otlp_resource){"edgeway-agent", "edge-1", true});
	otlp_add(&o, s);
	otlp_end(&o);
	json_init(&j, buf_at(out), buf_len(out));
	assert_int_equal(json_finish(&j, NULL), 0);
	text = buf_str(out);
	assert_memory_equal(text, HEAD, sizeof HEAD - 1);
	assert_string_equal(text + buf_len(out) - (sizeof TAIL - 1), TAIL);
	out->data[out->end - (sizeof TAIL - 1)] = '\0';
	return text + sizeof HEAD - 1;
}

/* clang-format off */
#define WHOLE \
	"{\"traceId\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"spanId\":\"00f067aa0ba902b7\",\"flags\":259,\"name\":\"GET\"," \
	"\"kind\":3,\"startTimeUnixNano\":\"1800000000000000001\",\"endTimeUnixNano\":\"1800000000001500001\",\"attributes\":[" \
	TEXT("http.request.method", "GET") "," TEXT("url.full", "http://web.shop/x") "," \
	TEXT("server.address", "web.shop") "," INT("server.port", "80") "," \
	TEXT("network.protocol.name", "http") "," TEXT("network.protocol.version", "1.1") "," \
	TEXT("client.address", "172.17.0.4") "," INT("client.port", "53312") "," \
	TEXT("k8s.namespace.name", "shop") "," TEXT("edgeway.service", "web") "," \
	TEXT("network.peer.address", "172.17.0.2") "," INT("network.peer.port", "8080") "," \
	TEXT("edgeway.via", "direct") "," INT("http.response.status_code", "200") "," \
	TEXT("edgeway.end", "--") "," INT("http.request.body.size", "3") "," \
	INT("http.response.body.size", "9223372036854775807") "," INT("edgeway.retries", "0") \
	"],\"events\":[{\"timeUnixNano\":\"1800000000001000001\",\"name\":\"edgeway.connected\",\"attributes\":[" \
	TEXT("network.peer.address", "172.17.0.2") "," INT("network.peer.port", "8080") "]}],\"status\":{}}"
/* clang-format on */

static void
a_whole_span(void **state)
{
	struct trace_span s = sample();

	(void)state;
	assert_string_equal(written(&s), WHOLE);
}

static void
has(const struct trace_span *s, const char *text, bool wanted)
{
	const char *all = written(s);

	if ((strstr(all, text) != NULL) != wanted)
		fail_msg("%s is %s in %s", text, wanted ? "not" : "", all);
}

static void
what_differs(void **state)
{
	struct trace_span s = sample();

	(void)state;
	s.has_parent = true;
	memset(s.parent, 0xab, sizeof s.parent);
	has(&s, "\"parentSpanId\":\"abababababababab\",\"flags\":771,", true);
	s.status = 404;
	has(&s, TEXT("error.type", "404"), true);
	has(&s, "\"status\":{\"code\":2}", true);
	s.status = 200;
	strcpy(s.end, "SD");
	has(&s, TEXT("error.type", "SD"), true);
	has(&s, TEXT("edgeway.end", "SD"), true);
	s.status = 0;
	has(&s, "http.response.status_code", false);
	strcpy(s.method, "get");
	has(&s, "\"name\":\"HTTP\"", true);
	has(&s, TEXT("http.request.method", "_OTHER"), true);
	has(&s, TEXT("http.request.method_original", "get"), true);
	s.port = 8000;
	has(&s, TEXT("url.full", "http://web.shop:8000/x"), true);
	strcpy(s.path, "*");
	has(&s, TEXT("url.full", "http://web.shop:8000"), true);
	s.endpoint_ip = v4(0x0a000005);
	s.endpoint_far = true;
	has(&s, TEXT("edgeway.via", "tunnel"), true);
	has(&s, TEXT("network.peer.address", "10.0.0.5"), true);
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &s.endpoint_ip), 1);
	has(&s, TEXT("network.peer.address", "2001:db8::1"), true);
	s.has_endpoint = false;
	s.n_events = 0;
	s.n_lost = 7;
	has(&s, "network.peer.address", false);
	has(&s, "\"events\":[],\"droppedEventsCount\":7,", true);
	s.service[0] = '\0';
	has(&s, "edgeway.service", false);
	strcpy(s.path, "/\xff\"\\\n\x01");
	has(&s, "/\xef\xbf\xbd\\\"\\\\\\n\\u0001", true);
}

/* All of it, with scopes. */
static const char *
all(struct otlp *o, const struct trace_span *const *spans, size_t n)
{
	struct json j;

	buf_consume(&o->out, buf_len(&o->out));
	otlp_begin(o, &(struct otlp_resource){"edgeway-hub", "hub-0", false});
	for (size_t i = 0; i < n; i++)
		otlp_add(o, spans[i]);
	otlp_end(o);
	json_init(&j, buf_at(&o->out), buf_len(&o->out));
	assert_int_equal(json_finish(&j, NULL), 0);
	return buf_str(&o->out);
}

static void
relays(void **state)
{
	struct trace_span s = sample();
	const struct trace_span *list[] = {&s};
	struct otlp o = {0};
	const char *text;

	(void)state;
	buf_init(&o.out, BUF_UNLIMITED);
	s.part = TRACE_RELAY;
	s.method[0] = '\0';
	s.status = 0;
	text = all(&o, list, 1);
	assert_non_null(strstr(text, "\"name\":\"tcp\",\"kind\":3,"));
	assert_non_null(strstr(text, INT("edgeway.bytes.sent", "3")));
	assert_null(strstr(text, "http."));
	assert_null(strstr(text, "error.type"));
	assert_null(strstr(text, "k8s.node.name"));
	strcpy(s.end, "SC");
	assert_non_null(strstr(all(&o, list, 1), TEXT("error.type", "SC")));
	buf_fini(&o.out);
}

static struct trace_span *
carried(enum trace_part part)
{
	struct trace_span *s = span_new(part);

	strcpy(s->method, "CONNECT");
	strcpy(s->host, "edge-1");
	strcpy(s->carried->node, "edge-1");
	strcpy(s->carried->why, "done");
	s->port = 10250;
	s->has_endpoint = true;
	s->status = 200;
	return s;
}

static void
of_the_tunnel(void **state)
{
	static const struct {
		enum trace_part part;
		unsigned status;
		bool broken;
		const char *name, *kind, *error; /* error "": none */
	} rows[] = {
		{TRACE_SERVED, 200, false, "CONNECT", "2", ""},
		{TRACE_SERVED, 403, false, "CONNECT", "2", ""},
		{TRACE_SERVED, 502, false, "CONNECT", "2", "502"},
		{TRACE_SERVED, 0, true, "CONNECT", "2", "cancelled"},
		{TRACE_SERVED, 200, true, "CONNECT", "2", "broken"},
		{TRACE_ASKED, 200, false, "CONNECT", "2", ""},
		{TRACE_ASKED, 404, false, "CONNECT", "2", ""},
		{TRACE_ASKED, 503, false, "CONNECT", "2", "503"},
		{TRACE_LED, 200, false, "tcp", "3", ""},
		{TRACE_LED, 403, false, "tcp", "3", "403"},
		{TRACE_LED, 200, true, "tcp", "3", "broken"},
	};
	struct otlp o = {0};

	(void)state;
	buf_init(&o.out, BUF_UNLIMITED);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct trace_span *s = carried(rows[i].part);
		auto_free char *name =
			xasprintf("\"name\":\"%s\",\"kind\":%s,", rows[i].name, rows[i].kind);
		auto_free char *error = xasprintf(TEXT("error.type", "%s"), rows[i].error);
		const char *text;

		s->status = (uint16_t)rows[i].status;
		s->carried->broken = rows[i].broken;
		text = all(&o, (const struct trace_span *const[]){s}, 1);
		assert_non_null(strstr(text, name));
		assert_non_null(strstr(text, TEXT("edgeway.node", "edge-1")));
		if ((strstr(text, error) != NULL) != (rows[i].error[0] != '\0') ||
			(strstr(text, "\"status\":{}") != NULL) == (rows[i].error[0] != '\0'))
			fail_msg("row %zu: %s", i, text);
		free(s);
	}
	buf_fini(&o.out);
}

static void
which_way(void **state)
{
	struct trace_span *s = carried(TRACE_ASKED), *r = carried(TRACE_SERVED);
	const struct trace_span *list[] = {s, s, r, s};
	struct otlp o = {0};
	const char *text;

	(void)state;
	buf_init(&o.out, BUF_UNLIMITED);
	assert_non_null(strstr(all(&o, list, 1), TEXT("edgeway.via", "tunnel")));
	strcpy(s->carried->replica, "hub-1");
	assert_non_null(strstr(all(&o, list, 1), TEXT("edgeway.via", "replica")));
	strcpy(s->carried->meant, "edge-2");
	text = all(&o, list, 1);
	assert_non_null(strstr(text, TEXT("edgeway.via", "neighbour")));
	assert_non_null(strstr(text, TEXT("edgeway.beside", "edge-2")));
	assert_non_null(strstr(text, TEXT("edgeway.replica", "hub-1")));
	s->carried->node[0] = '\0';
	assert_non_null(strstr(all(&o, list, 1), TEXT("edgeway.via", "hub")));
	s->has_endpoint = false;
	strcpy(s->method, "GET");
	strcpy(s->path, "/x");
	text = all(&o, list, 1);
	assert_null(strstr(text, "edgeway.via"));
	assert_non_null(strstr(text, TEXT("url.path", "/x")));
	/* Each part of the program has a scope of its own. */
	text = all(&o, list, 4);
	for (int i = 0; i < 3; i++) {
		text = strstr(text,
			i == 1 ? "\"name\":\"edgeway.tunnel\"" : "\"name\":\"edgeway.ingress\"");
		assert_non_null(text++);
	}
	assert_null(strstr(text, "\"scope\""));
	text = all(&o, list, 0);
	assert_non_null(strstr(text, "\"scopeSpans\":[]"));
	free(s);
	free(r);
	buf_fini(&o.out);
}

static void
sources(void **state)
{
	struct span_source from = {.on = true, .below = 1u << 31, .per_s = 2};
	struct trace_moment now = {
		.us = 5000000, .unix_ns = 7, .random = {0, 0, 0, (1ull << 63) - 1}};
	struct trace_context parent = {.trace = {1}, .span = {2}, .flags = 0};
	struct trace_span *s;

	(void)state;
	assert_null(span_begin(&from, TRACE_LED, &parent, &now)); /* who says no is believed */
	s = span_begin(&from, TRACE_LED, NULL, &now);
	assert_true(s != NULL && !s->has_parent && s->begin_ns == 7);
	assert_int_equal(
		s->context.trace[TRACE_ID_BYTES - 1] | s->context.trace[0], 1); /* never all 0 */
	assert_int_equal(s->context.span[TRACE_SPAN_BYTES - 1], 1);
	free(s);
	now.random[3] = 1ull << 63;
	assert_null(span_begin(&from, TRACE_LED, NULL, &now));
	parent.flags = TRACE_SAMPLED;
	s = span_begin(&from, TRACE_LED, &parent, &now);
	assert_true(s != NULL && s->has_parent && s->parent[0] == 2 && s->context.trace[0] == 1);
	free(s);
	assert_null(span_begin(&from, TRACE_LED, &parent, &now));
	assert_int_equal(from.limited, 1);
	now.us += 1000000;
	s = span_begin(&from, TRACE_LED, &parent, &now);
	assert_non_null(s);
	from.on = false;
	span_end(&from, &s, now.us); /* nobody takes it any more */
	assert_null(s);
}

/* In pieces or at once, with the former one thrown away half-done. */
static void
batches(void **state)
{
	const struct otlp_resource who = {"edgeway-agent", "edge-1", true};
	struct body *b = body_new(&who);
	struct trace_span s = sample();
	const struct buf *body;
	size_t len[2];

	(void)state;
	body_begin(b, 3);
	body_add(b, &s);
	for (int round = 0; round < 2; round++) {
		body_begin(b, 100);
		for (int i = 0; i < 100; i++)
			body_add(b, &s);
		body = body_end(b);
		len[round] = buf_len(body);
		assert_memory_equal(buf_at(body), "\x1f\x8b\x08", 3);
	}
	assert_int_equal(len[0], len[1]);
	assert_in_range(len[0], 200, 20000);
	body_free(&b);
	assert_null(b);
}

static void
what_collectors_answer(void **state)
{
	static const struct {
		const char *body;
		uint64_t rejected;
		const char *why;
	} rows[] = {
		{"", 0, ""},
		{"{}", 0, ""},
		{"{\"partialSuccess\":{}}", 0, ""},
		{"{\"partialSuccess\":null}", 0, ""},
		{"{\"partialSuccess\":{\"rejectedSpans\":\"12\",\"errorMessage\":\"too "
		 "\\\"old\\\"\"}}",
			12, "too ?old?"},
		{"{\"partialSuccess\":{\"rejectedSpans\":3}}", 3, ""},
		{"{\"partialSuccess\":{\"rejectedSpans\":\"0\",\"errorMessage\":\"mind\"}}", 0,
			"mind"},
		{"{\"partialSuccess\":{\"rejectedSpans\":-1}}", 0, ""},
		{"{\"partialSuccess\":{\"rejectedSpans\":\"-1\"}}", 0, ""},
		{"{\"partialSuccess\":{\"rejectedSpans\":[1]}}", 0, ""},
		{"{\"partialSuccess\":{\"rejectedSpans\":\"x\"}}", 0, ""},
		{"{\"partialSuccess\":[]}", 0, ""},
		{"<html>", 0, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char why[64];

		if (otlp_rejected(rows[i].body, strlen(rows[i].body), why, sizeof why) !=
			rows[i].rejected)
			fail_msg("%s", rows[i].body);
		assert_string_equal(why, rows[i].why);
	}
}

/* Collectors join the messages of all that they hand spans on to. */
static void
refused_at_length(void **state)
{
	auto_free char *body = xasprintf("{\"partialSuccess\":{\"rejectedSpans\":\"12\","
					 "\"errorMessage\":\"too%*s\"}}",
		REPLY_MAX / 2, "old");
	char why[8];

	(void)state;
	assert_int_equal(otlp_rejected(body, strlen(body), why, sizeof why), 12);
	assert_string_equal(why, "too    ");
}

static const char *
parsed(const char *url)
{
	static const char *const none[] = {NULL};
	static char text[600];
	struct err err = {0};
	struct collector c;

	if (collector_parse(&c, url, none, &err) < 0)
		return NULL;
	snprintf(text, sizeof text, "%s %s %u %s %s", c.tls ? "tls" : "tcp", c.host, c.port,
		c.authority, c.path);
	collector_fini(&c);
	return text;
}

static void
urls(void **state)
{
	static const char *const bad[] = {"", "collector:4318", "grpc://c:4317", "http://",
		"http:///v1", "http://:4318", "http://c:0", "http://c:65536",
		"http://c:", "http://c:1x", "http://[::1", "http://[::1]x", "http://u:p@c",
		"http://c /", "http://c/a b", "http://c/#x", "http://c/\r\nX: y",
		"http://c/\xc3\xa4", "https//c"};

	(void)state;
	assert_string_equal(parsed("http://collector.observability:4318"),
		"tcp collector.observability 4318 collector.observability:4318 /v1/traces");
	assert_string_equal(parsed("http://c"), "tcp c 80 c /v1/traces");
	assert_string_equal(parsed("http://c/"), "tcp c 80 c /");
	assert_string_equal(
		parsed("https://c/otlp/v1/traces?k=v"), "tls c 443 c /otlp/v1/traces?k=v");
	assert_string_equal(parsed("https://c?k"), "tls c 443 c /v1/traces?k");
	assert_string_equal(
		parsed("http://[2001:db8::1]:1/x"), "tcp 2001:db8::1 1 [2001:db8::1]:1 /x");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (parsed(bad[i]) != NULL)
			fail_msg("took %s as %s", bad[i], parsed(bad[i]));
	}
}

static void
headers(void **state)
{
	static const char *const good[] = {"api-key=s3cret", "X-Tenant=a=b", "E=", NULL};
	static const char *const bad[] = {"", "=x", "api key=s3cret", "Host=s3cret",
		"content-LENGTH=s3cret", "traceparent=s3cret", "a=s3cret\r\nB: c", "s3cret"};
	struct collector c;

	(void)state;
	assert_int_equal(collector_parse(&c, "http://c", good, NULL), 0);
	assert_string_equal(c.fields, "api-key: s3cret\r\nX-Tenant: a=b\r\nE: \r\n");
	collector_fini(&c);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = {0};

		if (collector_parse(&c, "http://c", (const char *const[]){bad[i], NULL}, &err) !=
			-EINVAL)
			fail_msg("took %s", bad[i]);
		assert_null(strstr(err.text, "s3cret"));
	}
}

/* `n` times. */
static char *
again_and_again(const char *head, const char *piece, size_t n)
{
	struct buf all;

	buf_init(&all, BUF_UNLIMITED);
	buf_adds(&all, head);
	for (size_t i = 0; i < n; i++)
		buf_adds(&all, piece);
	return buf_take_str(&all);
}

/* "STATUS RETRY_AFTER KEPT BODY", "more", or why not; fed by pieces of `step` bytes. */
static const char *
replied(const char *answer, size_t step)
{
	static struct reply r;
	static char text[300];
	enum reply_got got = REPLY_MORE;
	size_t len = strlen(answer);

	reply_init(&r);
	for (size_t at = 0; at < len && got == REPLY_MORE; at += step) {
		buf_add(&r.in, answer + at, MIN(step, len - at));
		got = reply_take(&r);
	}
	if (got == REPLY_MORE && reply_end(&r))
		got = REPLY_DONE;
	if (got == REPLY_DONE)
		snprintf(text, sizeof text, "%u %u %s %s", r.status, r.retry_after_s,
			r.keep_alive ? "kept" : "closed", buf_str(&r.body));
	else
		snprintf(text, sizeof text, "%s", got == REPLY_MORE ? "more" : r.why);
	reply_fini(&r);
	return text;
}

static void
replies(void **state)
{
	static const struct {
		const char *answer, *want;
	} rows[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "200 0 kept {}"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
			"200 0 kept {}"},
		{"HTTP/1.1 200 OK\r\n\r\n{}", "200 0 closed {}"},
		{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
			"200 0 closed "},
		{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", "204 0 kept "},
		{"HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", "503 7 kept "},
		{"HTTP/1.1 503 No\r\nretry-after: 99999999999\r\nContent-Length: 0\r\n\r\n",
			"503 300 kept "},
		{"HTTP/1.1 503 No\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n",
			"503 0 kept "},
		{"HTTP/1.1 503 No\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\nContent-Length: "
		 "0\r\n\r\n",
			"503 0 kept "},
		{"HTTP/1.1 503 No\r\nRetry-After: Fri, 31 Dec 2100 23:59:59 GMT\r\nContent-Length: "
		 "0\r\n\r\n",
			"503 300 kept "},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", "more"},
		{"HTTP/1.1 200 OK\r\n", "more"},
		{"SSH-2.0-OpenSSH\r\n\r\n", "what answers does not speak HTTP"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
			"the answer's body is not HTTP"},
	};
	static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n",
			  chunk[] = "1;abcdefgh\r\nx\r\n";
	auto_free char *long_head = xcalloc(1, HTTP1_HEAD_MAX + 1), *long_body = NULL;
	auto_free char *heads = again_and_again("", interim, REPLY_ALL_MAX / 25 + 200);
	auto_free char *chunks =
		again_and_again("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk,
			REPLY_ALL_MAX / 15 + 300);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_string_equal(replied(rows[i].answer, 4096), rows[i].want);
		assert_string_equal(replied(rows[i].answer, 1), rows[i].want);
	}
	memset(long_head, 'a', HTTP1_HEAD_MAX);
	memcpy(long_head, "HTTP/1.1 200 OK\r\nA: ", 20);
	assert_string_equal(replied(long_head, 4096), "the head of the answer is too long");
	long_body = xasprintf("HTTP/1.1 200 OK\r\n\r\n%*d", REPLY_MAX + 1, 1);
	assert_string_equal(replied(long_body, 4096), "the answer is too long");
	assert_string_equal(replied(heads, 4096), "the answer is too long");
	assert_string_equal(replied(chunks, 4096), "the answer is too long");
	/* What nobody asked for ends the connection. */
	assert_string_equal(
		replied("HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\n", 4096), "204 0 closed ");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_span),
		cmocka_unit_test(what_differs),
		cmocka_unit_test(batches),
		cmocka_unit_test(relays),
		cmocka_unit_test(of_the_tunnel),
		cmocka_unit_test(which_way),
		cmocka_unit_test(sources),
		cmocka_unit_test(what_collectors_answer),
		cmocka_unit_test(refused_at_length),
		cmocka_unit_test(urls),
		cmocka_unit_test(headers),
		cmocka_unit_test(replies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
