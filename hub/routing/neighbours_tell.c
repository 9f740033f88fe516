#include "hub/routing/neighbours_private.h"

#include <string.h>

#include "model/json.h"

static const char *
state_of(const struct neighbours *n, const struct neighbour *b, size_t i)
{
	const char *node = b->vicinity->list[i].node;
	const struct carried_node *c = node != NULL ? neighbours_carried(n, node) : NULL;

	if (b->wrong[i] != NULL)
		return "refused";
	if (node != NULL && n->config.tunnelled(n->config.arg, node))
		return "has its own tunnel";
	return c != NULL && strcmp(c->via, b->name) == 0 ? "carried" : "ready";
}

void
neighbours_state(struct neighbours *n, struct buf *out)
{
	struct table_node *at = NULL;
	const char *comma = "";
	size_t slot = 0;

	neighbours_look(n);
	buf_adds(out, "[");
	while ((at = table_walk(&n->all, &slot, at)) != NULL) {
		const struct neighbour *b = neighbour_of(at);

		for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++) {
			buf_printf(out, "%s{\"node\":", comma);
			json_add_text(out, b->vicinity->list[i].text);
			buf_adds(out, ",\"via\":");
			json_add_text(out, b->name);
			buf_adds(out, ",\"site\":");
			json_add_text(out, b->site);
			buf_printf(out, ",\"here\":%s", b->here != NULL ? "true" : "false");
			buf_printf(out, ",\"state\":\"%s\",\"streams\":%llu,\"problem\":",
				state_of(n, b, i), (unsigned long long)b->streams);
			json_add_text(out, b->wrong[i] != NULL ? b->wrong[i] : "");
			buf_adds(out, "}");
			comma = ",";
		}
	}
	buf_adds(out, "]");
}

static void
count_entries(const struct neighbours *n, size_t *accepted, size_t *refused)
{
	struct table_node *at = NULL;
	size_t slot = 0;

	while ((at = table_walk(&n->all, &slot, at)) != NULL) {
		const struct neighbour *b = neighbour_of(at);

		for (size_t i = 0; b->vicinity != NULL && i < b->vicinity->n; i++)
			++*(b->wrong[i] == NULL ? accepted : refused);
	}
}

void
neighbours_metrics(struct neighbours *n, struct metrics *m)
{
	static const char entries[] = "edgeway_hub_neighbour_entries",
			  help[] = "What nodes have declared to reach beside themselves.";
	struct table_node *at = NULL;
	size_t slot = 0, accepted = 0, refused = 0, told = 0;
	char label[300];

	neighbours_look(n);
	count_entries(n, &accepted, &refused);
	metric_gauge(m, entries, help, "state=\"accepted\"", (double)accepted);
	metric_gauge(m, entries, help, "state=\"refused\"", (double)refused);
	while ((at = table_walk(&n->all, &slot, at)) != NULL) {
		const struct neighbour *b = neighbour_of(at);

		if (told++ == METRIC_NODES_MAX)
			break;
		metric_counter(m, "edgeway_hub_neighbour_streams_total",
			"Streams that a node has carried for others beside it.",
			metric_label(label, sizeof label, "via", b->name), b->streams);
	}
}
