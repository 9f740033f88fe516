/* Two codecs of HTTP/2, a client and a server, joined by two buffers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/http/h2.h"

enum { WRITE = 16 * 1024 };

/* A message on its way through one end. */
struct side {
	struct h2 *h2;
	int32_t id;
	struct buf out, in; /* body to send, and received */
	bool out_done, hold; /* hold: what comes is not consumed */
	enum h2_rest rest; /* out_done */
	int requests, heads, trailers, ends, closed, goaways, settings, sends, extensions;
	char pinged[2][H2_PING_BYTES + 1]; /* by the other end, and answers */
	enum h2_part part;
	bool last;
	uint32_t code;
	char said[4096]; /* the fields of the last section */
	struct h2_section *section;
	struct http1_head head;
	int status;
};

static struct side client, server;
static struct h2_fields fields;
static struct buf wire = {.limit = BUF_UNLIMITED}; /* on its way from one end to the other */

static void
note_section(struct side *s, struct h2_section *section, bool last)
{
	struct h2_field f;
	size_t at = 0, n = 0;

	s->last = last;
	s->section = section;
	s->said[0] = '\0';
	while (h2_section_next(section, &at, &f))
		n += (size_t)snprintf(s->said + n, sizeof s->said - n, "%.*s=%.*s;",
			(int)f.name.len, f.name.at, (int)f.value.len, f.value.at);
}

static void *
on_request(void *arg, int32_t id, struct h2_section *section, bool last)
{
	struct side *s = arg;

	s->requests++;
	s->id = id;
	note_section(s, section, last);
	s->status = h2_head_request(&s->head, section, last);
	return s;
}

static void
on_head(void *arg, void *stream, enum h2_part part, struct h2_section *section, bool last)
{
	struct side *s = arg;

	assert_ptr_equal(stream, s);
	note_section(s, section, last);
	s->part = part;
	s->heads += part != H2_TRAILERS;
	s->trailers += part == H2_TRAILERS;
	if (part != H2_TRAILERS)
		s->status = h2_head_response(&s->head, section, last);
}

static void
on_data(void *arg, void *stream, const char *data, size_t n)
{
	struct side *s = arg;

	(void)stream;
	buf_add(&s->in, data, n);
	if (!s->hold)
		h2_consume(s->h2, s->id, n);
}

static void
on_end(void *arg, void *stream)
{
	(void)stream;
	((struct side *)arg)->ends++;
}

static void
on_closed(void *arg, void *stream, uint32_t code)
{
	struct side *s = arg;

	(void)stream;
	s->closed++;
	s->code = code;
}

static size_t
on_source(void *arg, void *stream, const char **at, enum h2_rest *rest)
{
	struct side *s = arg;

	(void)stream;
	*at = buf_at(&s->out);
	if (s->out_done)
		*rest = s->rest;
	return buf_len(&s->out);
}

static void
on_sent(void *arg, void *stream, size_t n)
{
	(void)stream;
	buf_consume(&((struct side *)arg)->out, n);
}

static void
on_trailers(void *arg, void *stream)
{
	struct side *s = arg;

	(void)stream;
	fields.n = 0;
	h2_fields_add(&fields, "grpc-status", "0");
	h2_trailers(s->h2, s->id, &fields);
}

static void
on_settings(void *arg)
{
	((struct side *)arg)->settings++;
}

static void
on_goaway(void *arg, uint32_t code)
{
	struct side *s = arg;

	s->goaways++;
	s->code = code;
}

static const struct h2_events events = {
	.request = on_request,
	.head = on_head,
	.data = on_data,
	.end = on_end,
	.closed = on_closed,
	.source = on_source,
	.sent = on_sent,
	.trailers = on_trailers,
	.settings = on_settings,
	.goaway = on_goaway,
};

/* What a connection (CONNECT) has beside: its owner puts DATA into the output, in its own time. */
static bool
on_send(void *arg, void *stream, const uint8_t head[H2_FRAME_HEAD], size_t n)
{
	struct side *s = arg;

	if (s->sends++ % 2 == 0)
		return false;
	buf_add(&wire, head, H2_FRAME_HEAD);
	buf_add(&wire, buf_at(&s->out), n);
	on_sent(arg, stream, n);
	return true;
}

static void
on_ping(void *arg, const uint8_t payload[H2_PING_BYTES], bool ack)
{
	memcpy(((struct side *)arg)->pinged[ack], payload, H2_PING_BYTES);
}

static void
on_extension(void *arg, void *stream, uint8_t flags)
{
	(void)stream;
	((struct side *)arg)->extensions += flags;
}

/* Moves bytes until neither end has any; returns the result of the last input that failed. */
static int
exchange_bytes(size_t piece)
{
	struct side *const from[] = {&client, &server}, *const to[] = {&server, &client};
	int rc = 0;

	for (bool moved = true; moved;) {
		moved = false;
		for (int i = 0; i < 2; i++) {
			moved |= h2_output(from[i]->h2, &wire, WRITE) && from[i]->sends % 2 != 0;
			for (size_t n; buf_len(&wire) > 0; buf_consume(&wire, n)) {
				n = MIN(buf_len(&wire), piece);
				rc = MIN(rc, h2_input(to[i]->h2, buf_at(&wire), n, 1));
				moved = true;
			}
		}
	}
	return rc;
}

static void
end_open(struct side *s, enum h2_role role, const struct h2_events *e, const struct h2_limits *l)
{
	const struct h2_setup setup = {.role = role, .events = e, .arg = s, .limits = l};

	memset(s, 0, sizeof *s);
	buf_init(&s->out, BUF_UNLIMITED);
	buf_init(&s->in, BUF_UNLIMITED);
	s->rest = H2_LAST;
	s->h2 = h2_new(&setup, 1);
}

static int
both_open(void **state)
{
	(void)state;
	end_open(&client, H2_CLIENT, &events, NULL);
	end_open(&server, H2_SERVER, &events, NULL);
	return exchange_bytes(WRITE);
}

static int
both_open_for_connections(void **state)
{
	static const struct h2_limits limits = {
		.streams = 1, .window = 1 << 16, .head = 256, .frames = 100, .extension = 0xf1};
	static struct h2_events both;

	(void)state;
	both = events;
	both.sent = NULL;
	both.send = on_send;
	both.ping = on_ping;
	both.extension = on_extension;
	end_open(&client, H2_CLIENT, &both, &limits);
	end_open(&server, H2_SERVER, &both, &limits);
	return exchange_bytes(WRITE);
}

static int
both_close(void **state)
{
	struct side *const all[] = {&client, &server};

	(void)state;
	for (int i = 0; i < 2; i++) {
		h2_free(&all[i]->h2);
		buf_fini(&all[i]->out);
		buf_fini(&all[i]->in);
	}
	buf_fini(&wire);
	return 0;
}

/* A request as the proxy writes it for HTTP/1. */
static void
ask(const char *text, bool last)
{
	static char head[4096];

	snprintf(head, sizeof head, "%s", text);
	assert_int_equal(h2_fields_request(&fields, head, strlen(head), false), 0);
	client.id = h2_request(client.h2, &fields, last, &client);
	assert_true(client.id > 0);
}

static void
respond(bool last)
{
	fields.n = 0;
	h2_fields_add(&fields, ":status", "200");
	h2_respond(server.h2, server.id, &fields, last);
}

#define POST                                                                                       \
	"POST /pkg.S/M?q HTTP/1.1\r\nHost: web:80\r\nContent-Type: application/grpc\r\n"           \
	"Transfer-Encoding: chunked\r\nX-Request-Id: 1\r\nConnection: TE\r\nTE: trailers\r\n\r\n"

/* The bodies go in pieces of any size, the trailers after them; both streams end without an
 * error. */
static void
a_call(void **state)
{
	char body[3000];

	(void)state;
	memset(body, 'x', sizeof body);
	assert_int_equal(client.settings + server.settings, 2);
	ask(POST, false);
	buf_add(&client.out, body, sizeof body);
	assert_int_equal(exchange_bytes(7), 0);
	assert_int_equal(server.requests, 1);
	assert_false(server.last);
	assert_string_equal(server.said,
		":method=POST;:scheme=http;:path=/pkg.S/M?q;:authority=web:80;content-type="
		"application/grpc;x-request-id=1;te=trailers;");
	assert_int_equal(server.status, 0);
	assert_true(server.head.takes_trailers);
	assert_int_equal(buf_len(&server.in), sizeof body);
	client.out_done = true;
	h2_resume(client.h2, client.id);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(server.ends, 1);
	respond(false);
	buf_add(&server.out, "answer", 6);
	server.out_done = true;
	server.rest = H2_THEN_TRAILERS;
	assert_int_equal(exchange_bytes(1), 0);
	assert_int_equal(client.heads, 1);
	assert_int_equal(client.head.status, 200);
	assert_int_equal(client.trailers, 1);
	assert_string_equal(client.said, "grpc-status=0;");
	assert_true(client.last);
	assert_memory_equal(buf_at(&client.in), "answer", 6);
	assert_int_equal(client.closed, 1);
	assert_int_equal(server.closed, 1);
	assert_int_equal(client.code | server.code, H2_NO_ERROR);
}

/* Trailers without a body; and the rest of a request that is answered early is not wanted. */
static void
an_early_answer(void **state)
{
	(void)state;
	ask(POST, false);
	assert_int_equal(exchange_bytes(WRITE), 0);
	respond(false);
	server.out_done = true;
	server.rest = H2_THEN_TRAILERS;
	h2_resume(server.h2, server.id);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(client.trailers, 1);
	assert_int_equal(client.closed, 1);
	assert_int_equal(client.code, H2_NO_ERROR);
}

/* Who does not consume gets no more than the window; then, widened, more. */
static void
a_window(void **state)
{
	static char body[4 * H2_WINDOW];

	(void)state;
	server.hold = true;
	ask(POST, false);
	buf_add(&client.out, body, sizeof body);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(buf_len(&server.in), H2_WINDOW);
	h2_window(server.h2, server.id, H2_WINDOW_MAX);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(buf_len(&server.in), sizeof body);
	h2_consume(server.h2, server.id, sizeof body);
}

/* A stream that is a connection: each end closes its half by itself, and the owner puts its bytes
 * into the output. */
static void
a_connection(void **state)
{
	static char bytes[1 << 17];

	(void)state;
	assert_int_equal(h2_streams_max(client.h2), 1);
	assert_false(h2_takes_protocols(client.h2));
	fields.n = 0;
	h2_fields_add(&fields, ":method", "CONNECT");
	h2_fields_add(&fields, ":authority", "a:1");
	client.id = h2_request(client.h2, &fields, false, &client);
	assert_int_equal(exchange_bytes(5), 0);
	respond(false);
	buf_add(&server.out, "bye", 3);
	server.out_done = true;
	server.rest = H2_HALF;
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_memory_equal(buf_at(&client.in), "bye", 3);
	assert_int_equal(client.ends, 1);
	assert_int_equal(client.closed + server.closed, 0);
	server.hold = true;
	buf_add(&client.out, bytes, sizeof bytes);
	h2_resume(client.h2, client.id);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(buf_len(&server.in), 1 << 16);
	assert_int_equal(h2_room(client.h2, client.id), 0);
	assert_false(h2_hold(server.h2, server.id, 1 << 16));
	assert_false(h2_hold(server.h2, server.id, (1 << 15) + 1));
	assert_true(h2_hold(server.h2, server.id, 1 << 15));
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(buf_len(&server.in), 3 << 15);
	assert_true(h2_hold(server.h2, server.id, 0));
	client.out_done = true;
	client.rest = H2_HALF;
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(buf_len(&server.in), sizeof bytes);
	assert_int_equal(client.closed + server.closed, 2);
	assert_int_equal(client.code | server.code, H2_NO_ERROR);
}

/* What comes while a frame waits for room leaves behind it; one with nothing to say holds no
 * frame. */
static void
a_connection_that_pauses(void **state)
{
	size_t asked;

	(void)state;
	fields.n = 0;
	h2_fields_add(&fields, ":method", "CONNECT");
	h2_fields_add(&fields, ":authority", "a:1");
	client.id = h2_request(client.h2, &fields, false, &client);
	assert_int_equal(exchange_bytes(WRITE), 0);
	asked = h2_held(client.h2);
	buf_add(&client.out, "ab", 2);
	h2_resume(client.h2, client.id);
	assert_true(h2_output(client.h2, &wire, WRITE)); /* there is no room */
	buf_add(&client.out, "cd", 2);
	h2_resume(client.h2, client.id);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(buf_len(&server.in), 4);
	assert_memory_equal(buf_at(&server.in), "abcd", 4);
	assert_true(h2_held(client.h2) < asked);
	h2_resume(client.h2, client.id);
	assert_int_equal(exchange_bytes(WRITE), 0);
	buf_add(&client.out, "ef", 2);
	client.out_done = true;
	h2_resume(client.h2, client.id);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(buf_len(&server.in), 6);
	assert_int_equal(server.ends, 1);
}

/* Frames of the owner's own: pings with a payload, and a type that is not in RFC 9113. A header
 * section beyond the owner's limit is told as such. */
static void
frames_of_ones_own(void **state)
{
	char large[256];

	(void)state;
	ask(POST, false);
	assert_int_equal(exchange_bytes(WRITE), 0);
	h2_ping(client.h2, (const uint8_t *)"question");
	h2_send_extension(server.h2, server.id, 7);
	assert_int_equal(exchange_bytes(1), 0);
	assert_string_equal(server.pinged[false], "question");
	assert_string_equal(client.pinged[true], "question");
	assert_string_equal(client.pinged[false], "");
	assert_int_equal(client.extensions, 7);
	assert_false(server.section->too_large);
	h2_reset(client.h2, client.id, H2_CANCEL);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(h2_counts(server.h2)->resets, 1);
	assert_int_equal(h2_counts(client.h2)->resets, 0);
	memset(large, 'x', sizeof large);
	large[sizeof large - 1] = '\0';
	fields.n = 0;
	h2_fields_add(&fields, ":method", "CONNECT");
	h2_fields_add(&fields, ":authority", large);
	assert_true(h2_request(client.h2, &fields, false, &client) > 0);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_true(server.section->too_large);
}

/* By what is not consumed it becomes as small as it is made, and stays so. */
static void
a_window_that_shrinks(void **state)
{
	static char body[4 * H2_WINDOW];
	const size_t small = 4096;
	size_t had = H2_WINDOW;

	(void)state;
	server.hold = true;
	ask(POST, false);
	buf_add(&client.out, body, sizeof body);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(buf_len(&server.in), had);
	h2_window(server.h2, server.id, small);
	for (int i = 0; i < 20; i++, had += small) {
		assert_int_equal(buf_len(&server.in), had);
		h2_consume(server.h2, server.id, small);
		assert_int_equal(exchange_bytes(WRITE), 0);
	}
}

/* Between two calls it gives back what a session is made with, and the tables of HPACK stay. */
static void
a_rest(void **state)
{
	size_t awake = h2_held(server.h2);

	(void)state;
	for (int i = 0; i < 3; i++) {
		h2_rest(server.h2);
		assert_true(h2_held(server.h2) + 8000 < awake);
		h2_rest(server.h2); /* changes nothing */
		assert_false(h2_wants_output(server.h2));
		assert_false(h2_is_over(server.h2));
		h2_rest(server.h2);
		h2_rest(client.h2);
		ask(POST, true);
		assert_int_equal(exchange_bytes(7), 0);
		assert_int_equal(server.requests, i + 1);
		assert_non_null(strstr(server.said, "content-type=application/grpc;"));
		respond(true);
		assert_int_equal(exchange_bytes(WRITE), 0);
		assert_int_equal(client.heads, i + 1);
		assert_int_equal(client.closed, i + 1);
	}
	h2_rest(server.h2);
	h2_drain(server.h2);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(client.goaways, 1);
	h2_rest(server.h2); /* and is freed so */
}

/* The head of a frame that is too much wakes it as well. */
static void
a_rest_that_a_flood_ends(void **state)
{
	static const uint8_t head[9] = {0xff, 0xff, 0xff, 1, 4, 0, 0, 0, 1};

	(void)state;
	h2_rest(client.h2);
	assert_true(h2_room(client.h2, 0) > 0);
	h2_rest(server.h2);
	assert_int_equal(h2_input(server.h2, head, sizeof head, 1), -EPROTO);
	assert_int_equal(h2_code(server.h2), H2_ENHANCE_YOUR_CALM);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(client.goaways, 1);
}

/* gRPC measures the path by a PING with each DATA that it gets, for ever. */
static void
pings_with_data(void **state)
{
	enum { ROUNDS = 20000 };
	struct side *const ends[] = {&client, &server};

	(void)state;
	ask(POST, false);
	assert_int_equal(exchange_bytes(WRITE), 0);
	respond(false);
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < 2; k++) {
			buf_add(&ends[k]->out, "x", 1);
			h2_resume(ends[k]->h2, ends[k]->id);
		}
		h2_ping(ends[i % 2]->h2, NULL);
		assert_int_equal(exchange_bytes(WRITE), 0);
	}
	assert_int_equal(buf_len(&client.in), ROUNDS);
}

/* Tokens that each request has of its own: too many for the tables. */
static void
large_sections(void **state)
{
	char text[4000] = "GET / HTTP/1.1\r\nHost: web\r\nAuthorization: ";
	const size_t begin = strlen(text), end = sizeof text - 5;
	uint32_t random = 1;

	(void)state;
	memcpy(text + end, "\r\n\r\n", 5);
	for (int i = 0; i < 1000; i++) {
		for (size_t k = begin; k < end; k++)
			text[k] =
				(char)('!' + ((random = random * 1664525 + 1013904223) >> 8) % 90);
		ask(text, true);
		assert_int_equal(exchange_bytes(WRITE), 0);
		respond(true);
	}
}

/* Streams that are opened and reset at once: so many, and then that is said. */
static void
rapid_resets(void **state)
{
	int rc = 0, n = 0;

	(void)state;
	for (; rc == 0 && n < 10000; n++) {
		ask(POST, true);
		h2_output(client.h2, &client.in, WRITE); /* it is on its way */
		h2_reset(client.h2, client.id, H2_CANCEL);
		h2_output(client.h2, &client.in, WRITE);
		rc = h2_input(server.h2, buf_at(&client.in), buf_len(&client.in), 1);
		buf_consume(&client.in, buf_len(&client.in));
	}
	assert_in_range(n, 1000, 5000);
	assert_int_equal(h2_code(server.h2), H2_ENHANCE_YOUR_CALM);
	assert_string_equal(h2_why(server.h2), "too many streams that it resets");
	exchange_bytes(WRITE);
	assert_int_equal(client.goaways, 1);
	assert_int_equal(client.code, H2_ENHANCE_YOUR_CALM);
}

static void
resets(void **state)
{
	(void)state;
	ask(POST, false);
	assert_int_equal(exchange_bytes(WRITE), 0);
	h2_reset(client.h2, client.id, H2_ENHANCE_YOUR_CALM);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(server.closed, 1);
	assert_int_equal(server.code, H2_ENHANCE_YOUR_CALM);
	ask(POST, false);
	assert_int_equal(exchange_bytes(WRITE), 0);
	h2_reset(server.h2, server.id, H2_REFUSED_STREAM);
	h2_forget(server.h2, server.id);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(server.closed, 1); /* it was forgotten */
	assert_int_equal(client.code, H2_REFUSED_STREAM);
}

/* A server that passes on a code from further on does not take it for its client's fault. */
static void
codes_from_elsewhere(void **state)
{
	(void)state;
	for (int i = 0; i < 1100; i++) {
		ask(POST, false);
		assert_int_equal(exchange_bytes(WRITE), 0);
		h2_reset(server.h2, server.id, H2_PROTOCOL_ERROR);
		assert_int_equal(exchange_bytes(WRITE), 0);
		assert_int_equal(client.code, H2_INTERNAL_ERROR);
	}
	assert_int_equal(client.closed, 1100);
}

/* What was asked before GOAWAY is served, what comes after it is not processed. */
static void
a_drain(void **state)
{
	(void)state;
	ask(POST, false);
	assert_int_equal(exchange_bytes(WRITE), 0);
	h2_drain(server.h2);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(client.goaways, 1);
	assert_int_equal(h2_streams_max(client.h2), 0);
	h2_goaway(server.h2, H2_NO_ERROR);
	respond(true);
	client.out_done = true;
	h2_resume(client.h2, client.id);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_int_equal(client.heads, 1);
	assert_true(h2_is_over(server.h2));
}

/* Bytes that are no HTTP/2, and frames that carry nothing. */
static void
what_ends_it(void **state)
{
	static const uint8_t ping[17] = {[2] = 8, [3] = 6};
	auto_buf struct buf out = {.limit = BUF_UNLIMITED};
	int rc = 0;

	(void)state;
	for (int i = 0; i < 20000 && rc == 0; i++)
		rc = h2_input(server.h2, ping, sizeof ping, 1);
	assert_int_not_equal(rc, 0);
	assert_string_not_equal(h2_why(server.h2), "");
	while (h2_output(server.h2, &out, 1 << 20))
		;
	assert_true(h2_is_over(server.h2));
	h2_free(&server.h2);
	server.h2 =
		h2_new(&(struct h2_setup){.role = H2_SERVER, .events = &events, .arg = &server}, 1);
	assert_int_not_equal(h2_input(server.h2, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27, 1), 0);
}

/* --- requests in HTTP/1's terms ------------------------------------------------------------- */

static void
which_requests(void **state)
{
	static const struct {
		const char *fields; /* name=value;... */
		int status;
		const char *host;
	} rows[] = {
		{":method=GET;:scheme=http;:path=/;:authority=a;", 0, "a"},
		{":method=GET;:scheme=http;:path=/;host=a:1;", 0, "a:1"},
		{":method=GET;:scheme=http;:path=/;:authority=a;host=A;", 0, "a"},
		{":method=GET;:scheme=http;:path=/;:authority=a;host=b;", 400, NULL},
		{":method=GET;:scheme=http;:path=/;:authority=a b;", 400, NULL},
		{":method=GET;:scheme=http;:path=a;:authority=a;", 400, NULL},
		{":method=GET;:scheme=http;:path=http://x/;:authority=a;", 400, NULL},
		{":method=GET;:scheme=http;:path=/a b;:authority=a;", 400, NULL},
		{":method=GET;:scheme=http;:path=*;:authority=a;", 400, NULL},
		{":method=OPTIONS;:scheme=http;:path=*;:authority=a;", 0, "a"},
		{":method=G T;:scheme=http;:path=/;:authority=a;", 400, NULL},
		{":method=CONNECT;:authority=a:1;", 405, NULL},
		{":method=CONNECT;:scheme=http;:path=/chat;:authority=a;:protocol=websocket;", 0,
			"a"},
		{":method=CONNECT;:scheme=http;:path=/;:authority=a;:protocol=a b;", 400, NULL},
		{":method=POST;:scheme=http;:path=/;:authority=a;content-length=x;", 400, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct h2_section section = {.n = 0};
		struct http1_head h;

		buf_init(&section.text, BUF_UNLIMITED);
		for (const char *at = rows[i].fields; *at != '\0';) {
			const char *equals = strchr(at, '='), *end = strchr(equals, ';');
			uint32_t lens[2] = {(uint32_t)(equals - at), (uint32_t)(end - equals - 1)};

			buf_add(&section.text, lens, sizeof lens);
			buf_add(&section.text, at, lens[0]);
			buf_add(&section.text, "", 1);
			buf_add(&section.text, equals + 1, lens[1]);
			buf_add(&section.text, "", 1);
			section.n++;
			at = end + 1;
		}
		if (h2_head_request(&h, &section, true) != rows[i].status)
			fail_msg("%s: %d", rows[i].fields, h2_head_request(&h, &section, true));
		if (rows[i].host != NULL) {
			assert_int_equal(h.host.len, strlen(rows[i].host));
			assert_memory_equal(h.host.at, rows[i].host, h.host.len);
		}
		section.too_large = true;
		assert_int_equal(h2_head_request(&h, &section, true), 431);
		buf_fini(&section.text);
	}
}

/* CONNECT with a protocol is an Upgrade there and back. */
static void
a_protocol(void **state)
{
	(void)state;
	assert_true(h2_takes_protocols(client.h2));
	ask("CONNECT /chat HTTP/1.1\r\nHost: a\r\nX: 1\r\nConnection: upgrade\r\nUpgrade: "
	    "websocket\r\n\r\n",
		false);
	assert_int_equal(exchange_bytes(WRITE), 0);
	assert_string_equal(server.said,
		":protocol=websocket;:method=CONNECT;:scheme=http;:path=/chat;:authority=a;x=1;");
	assert_true(server.head.upgrade);
}

static void
first_bytes_of_a_server(void **state)
{
	(void)state;
	assert_true(h2_is_settings("\0\0\x06\x04\0\0\0\0\0\0", 10));
	assert_false(h2_is_settings("\0\0\x06\x04\0\0\0\0", 8));
	assert_false(h2_is_settings("HTTP/1.1 200 OK\r\n", 17));
	assert_false(h2_is_settings("\0\0\x06\x04\x01\0\0\0\0\0", 10));
}

int
main(void)
{
#define PAIR(test) cmocka_unit_test_setup_teardown(test, both_open, both_close)
	const struct CMUnitTest tests[] = {
		PAIR(a_call),
		PAIR(an_early_answer),
		PAIR(a_rest),
		PAIR(a_rest_that_a_flood_ends),
		PAIR(pings_with_data),
		PAIR(large_sections),
		PAIR(rapid_resets),
		PAIR(a_window),
		cmocka_unit_test_setup_teardown(
			a_connection_that_pauses, both_open_for_connections, both_close),
		cmocka_unit_test_setup_teardown(
			a_connection, both_open_for_connections, both_close),
		cmocka_unit_test_setup_teardown(
			frames_of_ones_own, both_open_for_connections, both_close),
		PAIR(a_window_that_shrinks),
		PAIR(resets),
		PAIR(codes_from_elsewhere),
		PAIR(a_drain),
		PAIR(what_ends_it),
		PAIR(a_protocol),
		cmocka_unit_test(which_requests),
		cmocka_unit_test(first_bytes_of_a_server),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
