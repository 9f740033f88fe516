#include "hub/page/web_private.h"

#include <string.h>

#include "base/core/hash.h"

/* Most bytes from a viewer between two turns in which he had read what he was told: it bounds the
 * pongs that wait for one who does not read, since none is longer than its ping. */
enum { HEARD_MAX = 16 * 1024 };

void
web_live_start(struct web_conn *c)
{
	struct viewer *v = xcalloc(1, sizeof *v);

	v->frames = wsframe_new(false);
	buf_init(&v->line, WANT_LINE_MAX);
	c->viewer = v;
	c->http.stage = HTTP_UPGRADED;
	c->pinged_ms = loop_now_ms(c->web->config.loop);
	timer_start(c->http.timer, WEB_STALL_MS, 0);
	c->web->n_viewers++;
	web_viewers_changed(c->web);
}

void
web_live_stop(struct web_conn *c)
{
	struct viewer *v = take_ptr(&c->viewer);

	wsframe_free(&v->frames);
	buf_fini(&v->line);
	free(v);
	c->web->n_viewers--;
	web_viewers_changed(c->web);
}

bool
web_live_close(struct web_conn *c, enum wsframe_code code, const char *why)
{
	if (why != NULL)
		web_drop(c, why);
	wsframe_close(c->viewer->frames, code);
	wsframe_emit(c->viewer->frames, &c->http.out);
	web_live_stop(c);
	return http_conn_end(&c->http);
}

/* Handles a complete line, without its line feed. */
static bool
take_want(struct web_conn *c, const char *line)
{
	struct viewer *v = c->viewer;

	if (want_parse(&v->want, line) < 0)
		return false;
	v->view = 0;
	web_hurry(c);
	return true;
}

/* False: a line is invalid or too long. */
static bool
take_lines(struct web_conn *c, struct buf *bytes)
{
	struct viewer *v = c->viewer;

	while (buf_len(bytes) > 0) {
		const char *at = buf_at(bytes), *end = memchr(at, '\n', buf_len(bytes));
		size_t n = end != NULL ? (size_t)(end - at) : buf_len(bytes);

		if (memchr(at, '\0', n) != NULL || buf_add(&v->line, at, n) < 0)
			return false;
		buf_consume(bytes, n + (end != NULL));
		if (end == NULL)
			continue;
		if (!take_want(c, buf_str(&v->line)))
			return false;
		buf_consume(&v->line, buf_len(&v->line));
	}
	return true;
}

bool
web_live_read(struct http_conn *http)
{
	struct web_conn *c = web_conn_of(http);
	struct buf *in = &http->in;
	auto_buf struct buf bytes;
	int rc;

	buf_init(&bytes, BUF_UNLIMITED);
	if (buf_len(in) == 0)
		return true;
	timer_start(c->http.timer, WEB_STALL_MS, 0);
	c->viewer->heard += buf_len(in);
	rc = wsframe_take(c->viewer->frames, buf_at(in), buf_len(in), &bytes);
	buf_consume(in, buf_len(in));
	if (rc > 0)
		return web_live_close(c, WSFRAME_NORMAL, NULL);
	if (rc < 0)
		return web_live_close(
			c, WSFRAME_PROTOCOL, wsframe_words(wsframe_closed(c->viewer->frames)));
	if (c->viewer->heard > HEARD_MAX)
		return web_live_close(c, WSFRAME_POLICY, "he asks without end");
	if (!take_lines(c, &bytes))
		return web_live_close(c, WSFRAME_POLICY, "he asks for what makes no sense");
	wsframe_emit(c->viewer->frames, &http->out);
	return true;
}

static bool
is_news(uint64_t *told, const struct buf *text, size_t from)
{
	uint64_t now = hash64(buf_at(text) + from, buf_len(text) - from, 0);

	if (now == *told)
		return false;
	*told = now;
	return true;
}

/* Drops the text from `from` on if it is the same that the viewer was sent last. */
static void
take_news(struct buf *text, size_t from, uint64_t *told)
{
	if (!is_news(told, text, from))
		text->end = text->start + from;
}

bool
web_live_turn(struct web_conn *c, const struct tell *tell)
{
	struct viewer *v = c->viewer;
	uint64_t now = loop_now_ms(c->web->config.loop);
	auto_buf struct buf text;
	size_t from;

	buf_init(&text, BUF_UNLIMITED);
	if (buf_len(&c->http.out) > 0) {
		c->web->skipped++;
		return true;
	}
	v->heard = 0;
	tell_top(tell, &text);
	take_news(&text, 0, &v->top);
	from = buf_len(&text);
	tell_view(tell, &v->want, &text);
	take_news(&text, from, &v->view);
	if (v->want.view == WANT_EVENTS)
		tell_events(&v->seen, &text);
	wsframe_put(v->frames, buf_at(&text), buf_len(&text), &c->http.out);
	if (now - c->pinged_ms >= WEB_PING_MS) {
		c->pinged_ms = now;
		wsframe_ping(v->frames);
	}
	wsframe_emit(v->frames, &c->http.out);
	return http_conn_flush(&c->http);
}
