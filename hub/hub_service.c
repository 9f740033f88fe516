/*
 * Finds the problem of a Service, and its class: from its objects (model/cluster/cluster), and
 * whether this hub has a route to the pods without hostPort. Such a pod is no problem while it can
 * be reached: through its node's tunnel, here or at another replica, or, if its node is not at the
 * edge, by a connection from the hub itself.
 */
#include "hub/hub_private.h"

#include <stdio.h>
#include <string.h>

#include "base/core/hash.h"

enum {
	NO_WAY_AFTER_MS = 30 * 1000, /* nodes reconnect, or move to another replica, sooner */
	WAYS_KEPT = 1024,
};

/* Cache for one round: many services have pods on the same nodes, and whether a node has joined may
 * need a disk access. */
struct hub_way_kept {
	uint64_t hash, round;
	bool lacks;
};

static bool
service_lacks_way(const struct hub *hub, const char *node)
{
	uint64_t hash = hash64(node, strlen(node), 'w');
	struct hub_way_kept *kept = &hub->ways_kept[hash % WAYS_KEPT];

	if (kept->round != hub->explain_round || kept->hash != hash)
		*kept = (struct hub_way_kept){hash, hub->explain_round, hub_lacks_way(hub, node)};
	return kept->lacks;
}

void
hub_service_begin(struct hub *hub)
{
	if (hub->ways_kept == NULL)
		hub->ways_kept = xcalloc(WAYS_KEPT, sizeof *hub->ways_kept);
	hub->explain_round++;
}

/* The first edge node that has had no tunnel for NO_WAY_AFTER_MS, so that this is not temporary;
 * NULL: none. */
static const char *
service_find_lost(const struct hub *hub, const struct cluster_behind *behind)
{
	const char *node = behind->nodes;
	struct presence_row row;

	if (hub->ways_kept == NULL || loop_now_ms(hub->loop) - hub->began_ms < NO_WAY_AFTER_MS)
		return NULL;
	for (size_t i = 0; i < behind->n_nodes; i++, node += strlen(node) + 1) {
		if (!service_lacks_way(hub, node))
			continue;
		if (presence_find(hub->presence, node, &row) &&
			(int64_t)wall_ms() - row.since_ms < NO_WAY_AFTER_MS)
			continue;
		return node;
	}
	return NULL;
}

static bool
service_is_idle(const struct hub *hub, const char *ns, const char *name)
{
	char key[2 * MESH_NAME_MAX + 2];
	const struct fanout_item *item;

	snprintf(key, sizeof key, "%s/%s", ns, name);
	item = fanout_find(hub->fanout, key);
	return item != NULL && item->present && item->counts.idle;
}

void
hub_service_look(const struct hub *hub, const char *ns, const char *name, struct hub_service *to)
{
	enum cluster_problem problem = cluster_problem(hub->cluster, ns, name);
	struct cluster_behind behind = cluster_behind(hub->cluster, ns, name);
	const char *lost;

	*to = (struct hub_service){.class = cluster_problem_class(problem),
		.kind = (enum hub_service_kind)problem,
		.text = cluster_reason(hub->cluster, ns, name)};
	if (problem == CLUSTER_WELL && service_is_idle(hub, ns, name)) {
		to->class = FINDING_WARNING;
		to->kind = HUB_SERVICE_NOT_READY;
		to->text = "none of its endpoints is ready";
		return;
	}
	if (problem != CLUSTER_WELL || behind.text[0] == '\0')
		return;
	to->kind = HUB_SERVICE_THROUGH_HUB;
	to->text = behind.text;
	if ((lost = service_find_lost(hub, &behind)) == NULL)
		return;
	to->class = FINDING_WARNING;
	to->kind = HUB_SERVICE_NO_WAY;
	snprintf(to->own, sizeof to->own,
		"pods of it on node %s have no hostPort, and the node has no tunnel: only that "
		"node "
		"itself can dial them; see edgewayctl node list",
		lost);
	to->text = to->own;
}

const char *
hub_service_word(enum hub_service_kind kind)
{
	if (kind == HUB_SERVICE_THROUGH_HUB)
		return "through_hub";
	if (kind == HUB_SERVICE_NOT_READY)
		return "not_ready";
	return kind == HUB_SERVICE_NO_WAY ? "no_way"
					  : cluster_problem_word((enum cluster_problem)kind);
}

enum finding_class
hub_service_class(enum hub_service_kind kind)
{
	if (kind == HUB_SERVICE_THROUGH_HUB)
		return FINDING_INFO;
	return kind == HUB_SERVICE_NO_WAY || kind == HUB_SERVICE_NOT_READY
		? FINDING_WARNING
		: cluster_problem_class((enum cluster_problem)kind);
}

void
hub_service_metrics(const struct hub *hub, struct metrics *m)
{
	for (unsigned kind = 0; kind < HUB_SERVICE_KINDS; kind++) {
		char label[96];

		if (kind == HUB_SERVICE_WELL)
			continue;
		snprintf(label, sizeof label, "class=\"%s\",problem=\"%s\"",
			finding_word(hub_service_class((enum hub_service_kind)kind)),
			hub_service_word((enum hub_service_kind)kind));
		metric_gauge(m, "edgeway_hub_service_findings",
			"Services by what is to be said of them: the worst of each.", label,
			(double)hub->service_counts[kind]);
	}
}
