#include "hub/port/twins.h"

#include <stdio.h>
#include <string.h>

#include "base/core/flapping.h"
#include "hub/port/presence.h"
#include "model/json.h"

struct twin {
	char *node;
	char older[PRESENCE_ADDRESS_MAX + 1], newer[PRESENCE_ADDRESS_MAX + 1];
	uint64_t last_ms;
	struct flapping replaced;
};

struct twins {
	struct twin row[TWINS_MOST];
};

struct twins *
twins_new(void)
{
	return xcalloc(1, sizeof(struct twins));
}

void
twins_free(struct twins **out)
{
	struct twins *t = take_ptr(out);

	for (size_t i = 0; t != NULL && i < TWINS_MOST; i++)
		free(t->row[i].node);
	free(t);
}

/* The node's row, or that which was used longest ago, emptied. */
static struct twin *
twins_row(struct twins *t, const char *node)
{
	struct twin *oldest = t->row;

	for (struct twin *r = t->row; r < t->row + TWINS_MOST; r++) {
		if (r->node != NULL && strcmp(r->node, node) == 0)
			return r;
		if (r->last_ms < oldest->last_ms)
			oldest = r;
	}
	free(oldest->node);
	*oldest = (struct twin){.node = xstrdup(node)};
	return oldest;
}

bool
twins_note(struct twins *t, const char *node, const char *older, const char *newer, uint64_t now_ms)
{
	struct twin *r = twins_row(t, node);

	snprintf(r->older, sizeof r->older, "%s", older);
	snprintf(r->newer, sizeof r->newer, "%s", newer);
	r->last_ms = now_ms;
	flapping_note(&r->replaced, now_ms, "");
	return flapping_count(&r->replaced, now_ms) >= FLAPPING_LEAST;
}

void
twins_state(const struct twins *t, uint64_t now_ms, struct buf *out)
{
	const char *comma = "";

	buf_adds(out, "[");
	for (const struct twin *r = t->row; r < t->row + TWINS_MOST; r++) {
		unsigned n = flapping_count(&r->replaced, now_ms);

		if (n < FLAPPING_LEAST)
			continue;
		buf_printf(out, "%s{\"node\":", comma);
		json_add_text(out, r->node);
		buf_printf(out, ",\"replaced\":%u,\"older\":", n);
		json_add_text(out, r->older);
		buf_adds(out, ",\"newer\":");
		json_add_text(out, r->newer);
		buf_adds(out, "}");
		comma = ",";
	}
	buf_adds(out, "]");
}

void
twins_metrics(const struct twins *t, uint64_t now_ms, struct metrics *m)
{
	unsigned n = 0;

	for (const struct twin *r = t->row; r < t->row + TWINS_MOST; r++)
		n += flapping_count(&r->replaced, now_ms) >= FLAPPING_LEAST;
	metric_gauge(m, "edgeway_hub_node_twins",
		"Nodes whose sessions replaced each other four times or more within five minutes.",
		NULL, n);
}
