#include "hub/sync/nodes_private.h"

struct known_node {
	const char *name;
	uint64_t seen_ms; /* since 1970; 0: it is connected here */
};

bool
nodes_presence(const struct nodes *n, const char *node, struct presence_row *to)
{
	return presence_find(n->config.presence, node, to);
}

/* False: the node is connected to another replica, which reports it. A node that has not connected
 * since the hub's start counts as last seen at the start. */
static bool
known_look(const struct nodes *n, struct known_node *to)
{
	struct presence_row row = {.at = ""};

	if (!presence_find(n->config.presence, to->name, &row))
		to->seen_ms = n->started_ms;
	else if (!row.connected)
		to->seen_ms = MAX((uint64_t)row.since_ms, n->started_ms);
	return to->seen_ms != 0 || row.at[0] == '\0';
}

static void
known_tell_seen(const struct known_node *node, struct metrics *to)
{
	uint64_t ms = node->seen_ms != 0 ? node->seen_ms : wall_ms();
	char label[MESH_NODE_MAX + 16];

	metric_gauge(to, "edgeway_hub_node_last_seen_timestamp_seconds",
		"When the node was connected last, now for those that are; not before the start of "
		"the hub. Not told of those at another replica, nor of revoked ones.",
		metric_label(label, sizeof label, "node", node->name), (double)(ms / 1000));
}

void
nodes_known_metrics(const struct nodes *n, struct metrics *to)
{
	size_t known = 0, listed = 0, away = 0, told = 0;
	char **names;
	size_t n_names = certs_nodes(n->config.certs, &names);
	auto_free struct known_node *list = xcalloc(n_names + 1, sizeof *list);

	for (size_t i = 0; i < n_names; i++) {
		struct known_node node = {names[i], 0};

		if (certs_node_revoked(n->config.certs, names[i]))
			continue;
		known++;
		if (!known_look(n, &node))
			continue;
		away += node.seen_ms != 0;
		list[listed++] = node;
	}
	metric_gauge(to, "edgeway_hub_nodes_known", "Nodes that have joined and are not revoked.",
		NULL, (double)known);
	metric_gauge(to, "edgeway_hub_nodes_away",
		"Of these, those that are connected to no replica.", NULL, (double)away);
	for (int here = 0; here < 2; here++)
		for (size_t i = 0; i < listed && told < METRIC_NODES_MAX; i++)
			if ((list[i].seen_ms == 0) == here) {
				known_tell_seen(&list[i], to);
				told++;
			}
	for (size_t i = 0; i < n_names; i++)
		free(names[i]);
	free(names);
}
