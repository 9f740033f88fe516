#include "base/http/grpc_call.h"

#include <errno.h>
#include <string.h>

#include "base/http/h2.h"

enum {
	MESSAGE_HEAD = 5, /* compressed or not, and length: gRPC over HTTP2 */
	ANSWER_MAX = 64,
	/* protobuf: field 1 as bytes, and as a number */
	FIELD_SERVICE = 0x0a,
	FIELD_STATUS = 0x08,
	STATUS_SERVING = 1,
};

struct grpc_call {
	struct h2 *h2;
	struct grpc_result result;
	struct buf out;
	uint8_t answer[ANSWER_MAX];
	size_t n_answer;
	int32_t id;
	bool done;
};

static void
on_head(void *arg, void *stream, enum h2_part part, struct h2_section *section, bool last)
{
	struct grpc_call *c = arg;
	struct h2_field f;
	size_t at = 0;

	(void)stream;
	(void)last;
	while (part != H2_INTERIM && h2_section_next(section, &at, &f)) {
		if (http1_is(f.name, ":status") && f.value.len == 3)
			c->result.http = (f.value.at[0] - '0') * 100 + (f.value.at[1] - '0') * 10 +
				f.value.at[2] - '0';
		if (http1_is(f.name, "grpc-status"))
			c->result.status = grpc_status_parse(f.value);
	}
}

static void
on_data(void *arg, void *stream, const char *data, size_t n)
{
	struct grpc_call *c = arg;
	size_t take = MIN(n, sizeof c->answer - c->n_answer);

	(void)stream;
	memcpy(c->answer + c->n_answer, data, take);
	c->n_answer += take;
	h2_consume(c->h2, c->id, n);
}

static void
on_closed(void *arg, void *stream, uint32_t code)
{
	struct grpc_call *c = arg;

	(void)stream;
	(void)code;
	c->done = true;
	c->result.serving = c->result.status == GRPC_OK && c->n_answer == MESSAGE_HEAD + 2 &&
		c->answer[MESSAGE_HEAD] == FIELD_STATUS &&
		c->answer[MESSAGE_HEAD + 1] == STATUS_SERVING;
}

static size_t
on_source(void *arg, void *stream, const char **at, enum h2_rest *rest)
{
	struct grpc_call *c = arg;

	(void)stream;
	*at = buf_at(&c->out);
	*rest = H2_LAST;
	return buf_len(&c->out);
}

static void
on_sent(void *arg, void *stream, size_t n)
{
	(void)stream;
	buf_consume(&((struct grpc_call *)arg)->out, n);
}

static const struct h2_events events = {
	.head = on_head,
	.data = on_data,
	.closed = on_closed,
	.source = on_source,
	.sent = on_sent,
};

static void
grpc_call_message(struct buf *out, const char *service)
{
	const uint8_t n = (uint8_t)MIN(strlen(service), (size_t)GRPC_SERVICE_MAX);
	/* a length below 128 takes one byte of a varint, else two */
	const uint8_t size = n == 0 ? 0 : (uint8_t)(n < 128 ? n + 2 : n + 3);
	const uint8_t head[MESSAGE_HEAD] = {[4] = size};
	const uint8_t field[3] = {FIELD_SERVICE, n < 128 ? n : (uint8_t)(n | 0x80), n >> 7};

	buf_add(out, head, sizeof head);
	if (n == 0)
		return;
	buf_add(out, field, n < 128 ? 2 : 3);
	buf_add(out, service, n);
}

struct grpc_call *
grpc_call_new(const char *authority, const char *service, uint64_t now_ms)
{
	struct grpc_call *c = xcalloc(1, sizeof *c);
	struct h2_fields *f = xcalloc(1, sizeof *f);

	c->result.status = -1;
	buf_init(&c->out, BUF_UNLIMITED);
	grpc_call_message(&c->out, service);
	c->h2 = h2_new(&(struct h2_setup){.role = H2_CLIENT, .events = &events, .arg = c}, now_ms);
	h2_fields_add(f, ":method", "POST");
	h2_fields_add(f, ":scheme", "http");
	h2_fields_add(f, ":path", GRPC_HEALTH_PATH);
	h2_fields_add(f, ":authority", authority);
	h2_fields_add(f, "content-type", "application/grpc");
	h2_fields_add(f, "te", "trailers");
	h2_fields_add(f, "user-agent", "edgeway");
	c->id = h2_request(c->h2, f, false, c);
	free(f);
	return c;
}

void
grpc_call_output(struct grpc_call *c, struct buf *out)
{
	while (h2_output(c->h2, out, SIZE_MAX))
		;
}

int
grpc_call_input(struct grpc_call *c, const void *bytes, size_t n, uint64_t now_ms)
{
	int rc = h2_input(c->h2, bytes, n, now_ms);

	return c->done ? 1 : rc;
}

const struct grpc_result *
grpc_call_result(const struct grpc_call *c)
{
	return &c->result;
}

void
grpc_call_free(struct grpc_call **out)
{
	struct grpc_call *c = take_ptr(out);

	if (c == NULL)
		return;
	h2_free(&c->h2);
	buf_fini(&c->out);
	free(c);
}

const char *
grpc_health_service(const char *path)
{
	static const char query[] = "?service=";
	const char *rest;

	if (strncmp(path, GRPC_HEALTH_PATH, sizeof GRPC_HEALTH_PATH - 1) != 0)
		return NULL;
	rest = path + sizeof GRPC_HEALTH_PATH - 1;
	if (strncmp(rest, query, sizeof query - 1) == 0)
		return rest + sizeof query - 1;
	return *rest == '\0' ? "" : NULL;
}
