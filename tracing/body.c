#include "tracing/body.h"

#include "base/core/gzip.h"

enum {
	SPAN_BYTES = 1500, /* approximate size of one span */
	PIECE_BYTES = 16 * 1024, /* compressed at once */
};

struct body {
	struct otlp_resource who;
	char *program, *name;
	struct otlp json;
	struct gzip *gzip;
	struct buf body;
};

struct body *
body_new(const struct otlp_resource *who)
{
	struct body *b = xcalloc(1, sizeof *b);

	b->program = xstrdup(who->program);
	b->name = xstrdup(who->name);
	b->who = (struct otlp_resource){b->program, b->name, who->is_node};
	buf_init(&b->json.out, BUF_UNLIMITED);
	buf_init(&b->body, BUF_UNLIMITED);
	return b;
}

void
body_free(struct body **out)
{
	struct body *b = take_ptr(out);

	if (b == NULL)
		return;
	gzip_free(&b->gzip);
	buf_fini(&b->json.out);
	buf_fini(&b->body);
	free(b->program);
	free(b->name);
	free(b);
}

static void
body_pack(struct body *b)
{
	gzip_add(b->gzip, &b->body, buf_at(&b->json.out), buf_len(&b->json.out));
	buf_consume(&b->json.out, buf_len(&b->json.out));
}

void
body_begin(struct body *b, size_t about)
{
	gzip_free(&b->gzip);
	b->gzip = gzip_new(about * SPAN_BYTES);
	buf_consume(&b->json.out, buf_len(&b->json.out));
	buf_consume(&b->body, buf_len(&b->body));
	otlp_begin(&b->json, &b->who);
}

void
body_add(struct body *b, const struct trace_span *s)
{
	otlp_add(&b->json, s);
	if (buf_len(&b->json.out) >= PIECE_BYTES)
		body_pack(b);
}

const struct buf *
body_end(struct body *b)
{
	otlp_end(&b->json);
	body_pack(b);
	gzip_end(&b->gzip, &b->body);
	return &b->body;
}
