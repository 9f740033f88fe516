/* What others say where requests are recorded: a traceparent, a request's texts in a span, a
 * collector's answer and its URL. Whatever is taken can be written and read again, and every span
 * is JSON. */
#include <assert.h>
#include <string.h>

#include "model/json.h"
#include "tracing/collector.h"
#include "tracing/otlp.h"
#include "tracing/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
fill(char *to, size_t size, const uint8_t *data, size_t len)
{
	memcpy(to, data, MIN(len, size - 1));
}

static void
check_span(const uint8_t *data, size_t len)
{
	struct trace_span s = {.status = (uint16_t)len},
			  *t = span_new((enum trace_part)(len % TRACE_PARTS));
	struct otlp o;
	struct json j;

	buf_init(&o.out, BUF_UNLIMITED);
	fill(s.method, sizeof s.method, data, len);
	fill(s.host, sizeof s.host, data, len);
	fill(s.path, sizeof s.path, data, len);
	fill(s.service, sizeof s.service, data, len);
	otlp_begin(&o, &(struct otlp_resource){"edgeway-agent", "node", true});
	otlp_add(&o, &s);
	fill(t->method, sizeof t->method, data, len);
	fill(t->host, sizeof t->host, data, len);
	if (t->carried != NULL) {
		fill(t->carried->caller, sizeof t->carried->caller, data, len);
		fill(t->carried->why, sizeof t->carried->why, data, len);
	}
	otlp_add(&o, t);
	free(t);
	otlp_end(&o);
	json_init(&j, buf_at(&o.out), buf_len(&o.out));
	assert(json_finish(&j, NULL) == 0);
	buf_fini(&o.out);
}

static void
check_url(const char *text)
{
	const char *const headers[] = {text, NULL};
	struct collector c;

	if (collector_parse(&c, text, headers + 1, NULL) == 0) {
		assert(c.host[0] != '\0' && c.port != 0 && c.path[0] == '/');
		assert(strpbrk(c.path, " \r\n") == NULL && strpbrk(c.authority, " \r\n@") == NULL);
		collector_fini(&c);
	}
	if (collector_parse(&c, "http://c", headers, NULL) == 0) {
		assert(strchr(c.fields, '\n') == c.fields + strlen(c.fields) - 1);
		collector_fini(&c);
	}
}

/* Whole or by bytes: the same. */
static enum reply_got
read_reply(struct reply *r, const uint8_t *data, size_t len, size_t step)
{
	enum reply_got got = REPLY_MORE;

	reply_init(r);
	for (size_t at = 0; at < len && got == REPLY_MORE; at += step) {
		if (buf_add(&r->in, data + at, MIN(step, len - at)) < 0)
			return REPLY_BAD;
		got = reply_take(r);
	}
	return got;
}

static void
check_reply(const uint8_t *data, size_t len)
{
	static struct reply whole, pieces;
	enum reply_got got;

	if (len > HTTP1_HEAD_MAX)
		return;
	got = read_reply(&whole, data, len, MAX(len, 1u));
	assert(read_reply(&pieces, data, len, 1) == got && whole.status == pieces.status);
	assert(buf_len(&whole.body) == buf_len(&pieces.body) || got == REPLY_BAD);
	reply_fini(&whole);
	reply_fini(&pieces);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *text = xstrndup((const char *)data, len);
	char again[TRACEPARENT_LEN + 1], why[64];
	struct trace_context c, d;

	if (traceparent_parse(&c, (const char *)data, len)) {
		traceparent_text(again, &c);
		assert(traceparent_parse(&d, again, TRACEPARENT_LEN));
		assert(memcmp(&c, &d, sizeof c) == 0);
	}
	check_span(data, len);
	check_reply(data, len);
	otlp_rejected((const char *)data, len, why, sizeof why);
	assert(strpbrk(why, "\"\\\r\n") == NULL);
	check_url(text);
	return 0;
}
