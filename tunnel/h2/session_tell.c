/* JSON state of a session's streams. */
#include "model/json.h"
#include "tunnel/h2/session_private.h"

static const char *
state_of(const struct stream *st)
{
	if (st->refused)
		return "refused";
	if (!st->answered)
		return "opening";
	if (st->ended && st->far_ended)
		return "ending";
	if (st->ended)
		return "half-closed here";
	return st->far_ended ? "half-closed there" : "open";
}

void
session_streams(const struct session *s, const char *node, const char **comma, struct buf *out)
{
	uint64_t now = loop_now_ms(s->loop);
	const struct stream *st;

	TAILQ_FOREACH(st, &s->streams, link) {
		int32_t room = st->id > 0 ? h2_room(s->h2, st->id) : 0;

		buf_printf(out, "%s\n{\"node\":", *comma);
		json_add_text(out, node);
		buf_printf(out, ",\"stream\":%d,\"target\":", st->id);
		json_add_text(out, st->target != NULL ? st->target : "");
		buf_printf(out,
			",\"protocol\":\"%s\",\"state\":\"%s\",\"age_s\":%.1f,\"bytes_in\":%llu,"
			"\"bytes_out\":%llu,\"window_in\":%zu,\"window_out\":%d,\"waiting_in\":%zu,"
			"\"waiting_out\":%zu}",
			st->udp ? "udp" : "tcp", state_of(st), (double)(now - st->since_ms) / 1000,
			(unsigned long long)st->bytes_in, (unsigned long long)st->bytes_out,
			st->window, (int)room, st->in.len, st->out.len);
		*comma = ",";
	}
}
