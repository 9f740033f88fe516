/* Bytes of a stranger for either end of HTTP/2: the first byte says which end reads them, and in
 * pieces of which size. Every request that is reported can be written for HTTP/1 and read back, and
 * what is consumed is what came. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/http/grpc.h"
#include "base/http/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct h2 *h2;
static struct http1_head head;
static struct h2_fields fields;
static char emitted[2 * HTTP1_HEAD_MAX];
static int streams;

static void
check_request(const struct h2_section *section, bool last)
{
	const struct http1_forward forward = {
		.client = "192.0.2.1", .via = "", .host = "h", .request_id = "1"};
	ssize_t n;

	if (h2_head_request(&head, section, last) != 0) {
		assert(head.why != NULL);
		return;
	}
	(void)grpc_is_call(&head);
	(void)grpc_timeout_ms(&head);
	n = http1_emit_request(emitted, sizeof emitted, &head, &forward);
	assert(n > 0);
	assert(h2_fields_request(&fields, emitted, (size_t)n, section->secret) == 0);
	for (size_t i = 0; i < fields.n; i++)
		for (size_t c = 0; c < fields.list[i].value.len; c++)
			assert(strchr("\r\n", fields.list[i].value.at[c]) == NULL ||
				fields.list[i].value.at[c] == '\0');
}

static void *
on_request(void *arg, int32_t id, struct h2_section *section, bool last)
{
	(void)arg;
	check_request(section, last);
	streams++;
	fields.n = 0;
	h2_fields_add(&fields, ":status", "200");
	h2_respond(h2, id, &fields, id % 4 == 1);
	return &streams;
}

static void
on_head(void *arg, void *stream, enum h2_part part, struct h2_section *section, bool last)
{
	(void)arg;
	assert(stream == &streams);
	if (part != H2_TRAILERS && h2_head_response(&head, section, last) == 0) {
		char status[4];

		h2_fields_response(&fields, &head, status);
		assert(fields.n == head.n_fields + 1);
	}
	h2_fields_trailers(&fields, section);
}

static void
on_data(void *arg, void *stream, const char *data, size_t n)
{
	char sum = 0;

	(void)arg;
	(void)stream;
	for (size_t i = 0; i < n; i++)
		sum ^= data[i];
	(void)sum;
}

static void
on_end(void *arg, void *stream)
{
	(void)arg;
	(void)stream;
}

static void
on_closed(void *arg, void *stream, uint32_t code)
{
	(void)arg;
	(void)code;
	assert(stream == &streams);
	streams--;
}

static size_t
on_source(void *arg, void *stream, const char **at, enum h2_rest *rest)
{
	(void)arg;
	(void)stream;
	*at = "body";
	*rest = H2_LAST;
	return 4;
}

static void
on_sent(void *arg, void *stream, size_t n)
{
	(void)arg;
	(void)stream;
	(void)n;
}

static void
on_trailers(void *arg, void *stream)
{
	(void)arg;
	(void)stream;
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
};

static void
take_output(struct buf *out)
{
	h2_output(h2, out, 65536);
	buf_consume(out, buf_len(out));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct buf out;
	size_t piece;
	bool server;

	if (len < 1)
		return 0;
	server = (data[0] & 1) == 0;
	piece = (size_t)data[0] / 2 + 1;
	streams = 0;
	buf_init(&out, BUF_UNLIMITED);
	h2 = h2_new(
		&(struct h2_setup){.role = server ? H2_SERVER : H2_CLIENT, .events = &events}, 1);
	take_output(&out);
	if (!server) {
		fields.n = 0;
		h2_fields_add(&fields, ":method", "GET");
		h2_fields_add(&fields, ":scheme", "http");
		h2_fields_add(&fields, ":path", "/");
		h2_fields_add(&fields, ":authority", "a");
		for (int i = 0; i < 3; i++) {
			assert(h2_request(h2, &fields, i == 0, &streams) > 0);
			streams++;
		}
		take_output(&out);
	}
	for (size_t at = 1; at < len; at += piece) {
		if (h2_input(h2, data + at, MIN(piece, len - at), 1) < 0)
			break;
		take_output(&out);
	}
	take_output(&out);
	(void)h2_is_over(h2);
	h2_free(&h2);
	buf_fini(&out);
	return 0;
}
