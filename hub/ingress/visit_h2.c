#include <string.h>

#include "hub/ingress/visit.h"

/* HTTP/2 with prior knowledge: the first request's :authority says where the whole connection goes.
 * Nothing of ours comes between the client and its server but, where the client waits for it, one
 * empty SETTINGS. */

static void
visit_h2_refuse_it(struct visit *v, uint32_t stream, unsigned status, const char *line)
{
	visit_audit(v, status, 0, 0, line);
	opening_refuse(&v->out, stream, status, line, !v->h2_settings);
	visit_linger(v);
}

void
visit_h2_refuse(struct visit *v, unsigned status, const char *line)
{
	struct opening o;

	opening_read(buf_at(&v->in), buf_len(&v->in), &o);
	visit_h2_refuse_it(v, o.stream, status, line);
}

/* The acknowledgement of what the target has not sent. */
static void
cut_ack(struct buf *in, size_t at)
{
	char *bytes = buf_at(in);
	size_t behind = buf_len(in) - at - OPENING_FRAME_HEAD;

	memmove(bytes + at, bytes + at + OPENING_FRAME_HEAD, behind);
	in->end -= OPENING_FRAME_HEAD;
}

static void
on_asked(struct visit *v, const struct opening *o)
{
	char host[CALLER_HOST_MAX + 1];
	uint16_t port;

	if (!visit_http_authority(o->authority, host, &port)) {
		visit_h2_refuse_it(v, o->stream, 400,
			":authority: expected HOST:PORT of a node, a pod or a service");
		return;
	}
	if (v->h2_settings && o->ack_at == SIZE_MAX) {
		if (buf_len(&v->in) >= VISIT_H2_MAX)
			visit_h2_refuse_it(v, o->stream, 503, "our SETTINGS were not acknowledged");
		else
			visit_update(v);
		return;
	}
	if (v->h2_settings)
		cut_ack(&v->in, o->ack_at);
	visit_reach(v, host, port, NULL);
	visit_update(v);
}

/* More must come first. */
static void
wait_for_more(struct visit *v)
{
	if (buf_len(&v->in) >= VISIT_H2_MAX)
		visit_h2_refuse(v, 503, "the first request is too large");
	else
		visit_update(v);
}

bool
visit_h2_input(struct visit *v)
{
	struct opening o;
	enum opening_state state = opening_read(buf_at(&v->in), buf_len(&v->in), &o);

	if (state == OPENING_NONE || buf_len(&v->in) == 0) {
		v->h2 = false; /* "PRI " alone may have come before */
		return false;
	}
	v->h2 = buf_len(&v->in) >= 4; /* "PRI ": no method of HTTP/1 */
	if (state == OPENING_WAITS && !v->h2_settings) {
		opening_settings(&v->out);
		v->h2_settings = true;
	}
	if (state == OPENING_ASKED)
		on_asked(v, &o);
	else if (state == OPENING_BAD)
		visit_h2_refuse_it(v, o.stream, 400, "malformed HTTP/2");
	else
		wait_for_more(v);
	return true;
}
