/*
 * A service that no node could accept is refused here, where the reason is known: otherwise each
 * node would refuse it, again and again. Nodes keep its last view, as with a change that an agent
 * refuses.
 */
#include <string.h>

#include "model/cluster/cluster_private.h"
#include "model/json.h"
#include "model/pod_name.h"

static size_t
limits_count_endpoints(const struct view *v)
{
	size_t n = 0;

	for (size_t i = 0; i < v->n_ports; i++)
		n += v->ports[i].n_endpoints;
	return n;
}

/* Every value has at least one byte, so a small text needs no counting. */
void
cluster_check_limits(struct joined *now, const struct buf *json)
{
	size_t bytes = buf_len(json), values = 0;
	char *why;

	if (now->beyond || bytes <= VIEW_MAX_VALUES)
		return;
	if (bytes <= VIEW_MAX_BYTES)
		values = json_values(buf_at(json), bytes);
	if (bytes > VIEW_MAX_BYTES)
		why = xasprintf(
			"a message of %zu bytes, at most %d are allowed", bytes, VIEW_MAX_BYTES);
	else if (values > VIEW_MAX_VALUES)
		why = xasprintf("a message of %zu JSON values, at most %d are allowed", values,
			VIEW_MAX_VALUES);
	else
		return;
	cluster_reasons_set(&now->why, CLUSTER_LIMITS,
		xasprintf("beyond what a node takes: its %zu endpoints at %zu ports need %s",
			limits_count_endpoints(now->view), now->view->n_ports, why));
	now->beyond = true;
	free(why);
}

const struct told *
cluster_find_told(const struct cluster *c, const char *ns, const char *name)
{
	const char *dot = pod_name_is(name, strlen(name)) ? NULL : strchr(name, '.');
	const struct joint *j = cluster_find_joint(c, ns, dot != NULL ? dot + 1 : name);

	for (size_t i = 0; j != NULL && i < j->n_told; i++)
		if (strcmp(j->told[i].name, name) == 0)
			return &j->told[i];
	return NULL;
}

bool
cluster_beyond(const struct cluster *c, const char *ns, const char *name)
{
	const struct told *told = cluster_find_told(c, ns, name);

	return told != NULL && told->beyond;
}

void
cluster_each_beyond(const struct cluster *c, cluster_beyond_fn *fn, void *arg)
{
	size_t slot = 0;

	for (struct table_node *n = NULL; (n = table_walk(&c->joints, &slot, n)) != NULL;) {
		const struct joint *j = node_of(struct joint, n);

		for (size_t i = 0; i < j->n_told; i++)
			if (j->told[i].beyond)
				fn(arg, j->ns, j->told[i].name, j->told[i].why.text);
	}
}
