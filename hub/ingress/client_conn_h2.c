#include <string.h>

#include "hub/ingress/client_conn.h"

/* HTTP/2 with prior knowledge: the :authority of the first request decides where the whole
 * connection goes. The hub inserts nothing between the client and its server except, where the
 * client waits for it, one empty SETTINGS frame. */

static void
client_conn_h2_refuse_stream(
	struct client_conn *v, uint32_t stream, unsigned status, const char *line)
{
	client_conn_audit(v, status, 0, 0, line);
	h2_preface_refuse(&v->out, stream, status, line, !v->h2_settings);
	client_conn_linger(v);
}

void
client_conn_h2_refuse(struct client_conn *v, unsigned status, const char *line)
{
	client_conn_h2_refuse_stream(v, v->preface->stream, status, line);
}

/* Removes the client's acknowledgement of SETTINGS that the target has not sent. */
static void
cut_ack(struct buf *in, size_t at)
{
	char *bytes = buf_at(in);
	size_t behind = buf_len(in) - at - H2_PREFACE_FRAME_HEAD;

	memmove(bytes + at, bytes + at + H2_PREFACE_FRAME_HEAD, behind);
	in->end -= H2_PREFACE_FRAME_HEAD;
}

static void
on_asked(struct client_conn *v, const struct h2_preface *o)
{
	char host[CALLER_HOST_MAX + 1];
	uint16_t port;

	if (!client_conn_http_authority(o->authority, host, &port)) {
		client_conn_h2_refuse_stream(v, o->stream, 400,
			":authority: expected HOST:PORT of a node, a pod or a service");
		return;
	}
	if (v->h2_settings && o->ack_at == 0) {
		if (buf_len(&v->in) >= CLIENT_CONN_H2_MAX)
			client_conn_h2_refuse_stream(
				v, o->stream, 503, "our SETTINGS were not acknowledged");
		else
			client_conn_update(v);
		return;
	}
	if (v->h2_settings)
		cut_ack(&v->in, o->ack_at);
	client_conn_reach(v, host, port, NULL);
	client_conn_update(v);
}

/* Waits for more bytes. */
static void
wait_for_more(struct client_conn *v)
{
	if (buf_len(&v->in) >= CLIENT_CONN_H2_MAX)
		client_conn_h2_refuse(v, 503, "the first request is too large");
	else
		client_conn_update(v);
}

bool
client_conn_h2_input(struct client_conn *v)
{
	enum h2_preface_state state;

	if (v->preface == NULL)
		v->preface = xcalloc(1, sizeof *v->preface);
	state = h2_preface_read(buf_at(&v->in), buf_len(&v->in), v->preface);
	if (state == H2_PREFACE_NONE || buf_len(&v->in) == 0) {
		free(take_ptr(&v->preface));
		v->h2 = false; /* "PRI " alone may have been seen before */
		return false;
	}
	v->h2 = buf_len(&v->in) >= 4; /* "PRI ": not a method of HTTP/1 */
	if (state == H2_PREFACE_WAITS && !v->h2_settings) {
		h2_preface_settings(&v->out);
		v->h2_settings = true;
	}
	if (state == H2_PREFACE_ASKED)
		on_asked(v, v->preface);
	else if (state == H2_PREFACE_BAD)
		client_conn_h2_refuse(v, 400, "malformed HTTP/2");
	else
		wait_for_more(v);
	return true;
}
