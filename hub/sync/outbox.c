#include "hub/sync/outbox.h"

#include "model/bundle.h"

void
outbox_init(struct outbox *o, struct ws_conn *conn, bool bundles)
{
	*o = (struct outbox){.conn = conn, .bundles = bundles};
	buf_init(&o->lines, BUF_UNLIMITED);
}

void
outbox_fini(struct outbox *o)
{
	buf_fini(&o->lines);
}

void
outbox_send(struct outbox *o)
{
	auto_buf struct buf frame;
	const char *line;
	size_t len;

	buf_init(&frame, BUF_UNLIMITED);
	if (o->n_lines > 0 && buf_len(&o->lines) >= BUNDLE_LEAST_BYTES &&
		buf_len(&o->lines) <= ENVELOPE_MAX_BYTES)
		bundle_build(&frame, "edgeway-hub", NULL, &o->lines);
	if (buf_len(&frame) > 0 && buf_len(&frame) < buf_len(&o->lines)) {
		ws_send(o->conn, buf_at(&frame), buf_len(&frame));
	} else {
		while ((line = bundle_next(&o->lines, &len)) != NULL)
			ws_send(o->conn, line, len);
	}
	o->n_lines = 0;
	buf_consume(&o->lines, buf_len(&o->lines));
	buf_release(&o->lines);
}

char *
outbox_begin(struct outbox *o, size_t len)
{
	if (o->n_lines > 0 && buf_len(&o->lines) + len > BUNDLE_MOST_BYTES)
		outbox_send(o);
	return buf_reserve(&o->lines, len + 1);
}

void
outbox_end(struct outbox *o, size_t len)
{
	if (!o->bundles) {
		ws_send(o->conn, buf_at(&o->lines), len);
		return;
	}
	buf_at(&o->lines)[buf_len(&o->lines) + len] = '\n';
	buf_commit(&o->lines, len + 1);
	o->n_lines++;
}

bool
outbox_item(struct outbox *o, struct fanout *f, const struct fanout_item *item,
	const char id[FANOUT_ID_LEN + 1])
{
	struct fanout_frame shared;
	auto_buf struct buf own;

	buf_init(&own, BUF_UNLIMITED);
	if (!o->bundles || o->n_lines > 0 || item->frame_len < BUNDLE_LEAST_BYTES ||
		item->frame_len >= ENVELOPE_MAX_BYTES || !fanout_bundle(f, item, &shared))
		return false;
	buf_add(&own, shared.frame, shared.len);
	memcpy(buf_at(&own) + shared.id_at, id, FANOUT_ID_LEN);
	ws_send(o->conn, buf_at(&own), shared.len);
	return true;
}
