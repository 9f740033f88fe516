#include "tunnel/node/floods.h"

#include <string.h>

#include "model/json.h"

enum { TOLD_MS = 60 * 60 * 1000 }; /* how long a cut is reported */

struct floods {
	const char *flooded;
	struct {
		char *node;
		uint64_t cut_ms;
	} last[FLOODS_MOST]; /* a ring */
	uint64_t cut;
	char *slowed; /* node; NULL: none yet */
	uint64_t slowed_ms, times;
};

struct floods *
floods_new(const char *flooded)
{
	struct floods *f = xcalloc(1, sizeof *f);

	f->flooded = flooded;
	return f;
}

void
floods_free(struct floods **out)
{
	struct floods *f = take_ptr(out);

	if (f == NULL)
		return;
	for (size_t i = 0; i < FLOODS_MOST; i++)
		free(f->last[i].node);
	free(f->slowed);
	free(f);
}

void
floods_note(struct floods *f, const char *node, uint64_t now_ms)
{
	size_t at = f->cut++ % FLOODS_MOST;

	free(f->last[at].node);
	f->last[at].node = xstrdup(node);
	f->last[at].cut_ms = now_ms;
}

void
floods_slowed(struct floods *f, const char *node, uint64_t times, uint64_t now_ms)
{
	free(f->slowed);
	f->slowed = xstrdup(node);
	f->slowed_ms = now_ms;
	f->times += times;
}

bool
floods_rests(const struct floods *f, const char *node, uint64_t now_ms)
{
	for (size_t i = 0; f != NULL && i < FLOODS_MOST && f->last[i].node != NULL; i++)
		if (now_ms - f->last[i].cut_ms < FLOODS_REST_MS &&
			strcmp(f->last[i].node, node) == 0)
			return true;
	return false;
}

/* NULL: there is none. */
static char *
floods_trouble(const struct floods *f, uint64_t now_ms)
{
	size_t at = (f->cut + FLOODS_MOST - 1) % FLOODS_MOST;
	const bool slowed_last =
		f->slowed != NULL && (f->cut == 0 || f->slowed_ms > f->last[at].cut_ms);

	if (f->cut > 0 && !slowed_last && now_ms - f->last[at].cut_ms < TOLD_MS)
		return xasprintf("node %s floods this %s with frames that carry nothing: its "
				 "connection was cut %llu s ago",
			f->last[at].node, f->flooded,
			(unsigned long long)((now_ms - f->last[at].cut_ms) / 1000));
	if (f->slowed != NULL && now_ms - f->slowed_ms < TOLD_MS)
		return xasprintf("node %s asks for connections and gives them up, thousands a "
				 "second: it is read later, the last time %llu s ago",
			f->slowed, (unsigned long long)((now_ms - f->slowed_ms) / 1000));
	return NULL;
}

void
floods_state(const struct floods *f, uint64_t now_ms, struct buf *out)
{
	auto_free char *text = floods_trouble(f, now_ms);

	buf_printf(out, "{\"cut\":%llu", (unsigned long long)f->cut);
	if (text != NULL) {
		buf_adds(out, ",\"trouble\":");
		json_add_text(out, text);
	}
	buf_adds(out, "}");
}

void
floods_metrics(const struct floods *f, struct metrics *m)
{
	metric_counter(m, "edgeway_tunnel_flooded_total",
		"Connections of nodes cut: too many frames a second that carry nothing.", NULL,
		f->cut);
	metric_counter(m, "edgeway_tunnel_slowed_total",
		"Times that a node was read later, as it asked for connections and gave them up, "
		"thousands a second.",
		NULL, f->times);
}
