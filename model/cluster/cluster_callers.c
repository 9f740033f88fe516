#include <string.h>

#include "model/allow_from.h"
#include "model/cluster/cluster_private.h"
#include "model/local_callers.h"

/*
 * Which pods call from which node. Addresses repeat among nodes, so each node gets only its own
 * pods. hostNetwork pods have the node's address and cannot be distinguished from its processes, so
 * they are left out.
 */

struct changed_node {
	struct table_node node;
	TAILQ_ENTRY(changed_node) entry;
	char name[];
};

uint64_t
cluster_callers_hash(const char *node)
{
	return cluster_hash('w', node, "", "");
}

static struct changed_node *
callers_find_changed(const struct cluster *c, const char *node)
{
	struct table_node *n = table_first(&c->callers_changed, cluster_callers_hash(node));

	for (; n != NULL; n = table_next(n))
		if (strcmp(node_of(struct changed_node, n)->name, node) == 0)
			return node_of(struct changed_node, n);
	return NULL;
}

void
cluster_callers_touch(struct cluster *c, const char *node)
{
	struct changed_node *n;

	if (callers_find_changed(c, node) != NULL)
		return;
	n = xcalloc(1, sizeof *n + strlen(node) + 1);
	memcpy(n->name, node, strlen(node) + 1);
	table_add(&c->callers_changed, &n->node, cluster_callers_hash(node));
	TAILQ_INSERT_TAIL(&c->callers_waiting, n, entry);
}

char *
cluster_next_callers(struct cluster *c)
{
	struct changed_node *n = TAILQ_FIRST(&c->callers_waiting);
	char *name;

	if (n == NULL)
		return NULL;
	TAILQ_REMOVE(&c->callers_waiting, n, entry);
	table_remove(&c->callers_changed, &n->node);
	name = xstrdup(n->name);
	free(n);
	return name;
}

void
cluster_callers_fini(struct cluster *c)
{
	char *name;

	while ((name = cluster_next_callers(c)) != NULL)
		free(name);
	table_fini(&c->callers_changed);
}

size_t
cluster_restricted(const struct cluster *c)
{
	return c->n_restricted;
}

/* Is it a terminating pod whose address another pod already has? */
static bool
callers_has_successor(const struct cluster *c, const struct kube_pod *p, const char *ip)
{
	struct table_node *n = table_first(&c->pods_by_ip, cluster_ip_hash(p->node, ip));

	for (; p->deleting && n != NULL; n = table_next(n)) {
		const struct kube_pod *o = &link_record(n)->object->pod;

		if (!o->deleting && !o->ended && strcmp(o->node, p->node) == 0 &&
			cluster_pod_is_at(o, ip))
			return true;
	}
	return false;
}

static int
callers_compare(const void *a, const void *b)
{
	const struct record *x = *(const struct record *const *)a;
	const struct record *y = *(const struct record *const *)b;
	int order = strcmp(x->ns, y->ns);

	return order != 0 ? order : strcmp(x->name, y->name);
}

void
cluster_callers(const struct cluster *c, const char *node, struct buf *out)
{
	struct table_node *n = table_first(&c->pods_by_node, cluster_callers_hash(node));
	const struct record **list = NULL;
	size_t k = 0;

	for (; n != NULL; n = table_next(n)) {
		const struct record *r = link_record(n);
		const struct kube_pod *p = &r->object->pod;

		if (strcmp(p->node, node) != 0 || callers_has_successor(c, p, p->pod_ip) ||
			callers_has_successor(c, p, p->pod_ip6))
			continue;
		if ((k & (k - 1)) == 0)
			list = xrealloc(list, MAX(k * 2, (size_t)1) * sizeof *list);
		list[k++] = r;
	}
	if (k > 1)
		qsort(list, k, sizeof *list, callers_compare);
	local_callers_begin(out, cluster_node_labels(c, node));
	for (size_t i = 0; i < MIN(k, (size_t)LOCAL_CALLERS_MAX); i++) {
		const struct kube_pod *p = &list[i]->object->pod;

		local_callers_add(out,
			&(struct local_pod){
				list[i]->ns, list[i]->name, p->pod_ip, p->pod_ip6, &p->labels});
	}
	local_callers_end(out);
	free(list);
}

bool
cluster_node_may_call(
	const struct cluster *c, const char *node, const struct allow_from *allow_from)
{
	struct table_node *n = table_first(&c->pods_by_node, cluster_callers_hash(node));
	struct allow_caller who = {
		.on_node = true,
		.node = cluster_node_labels(c, node),
		.address_checked = true,
	};

	if (allow_from_permits(allow_from, &who))
		return true;
	for (; n != NULL; n = table_next(n)) {
		const struct record *r = link_record(n);

		if (strcmp(r->object->pod.node, node) != 0)
			continue;
		who.ns = r->ns;
		who.labels = &r->object->pod.labels;
		if (allow_from_permits(allow_from, &who))
			return true;
	}
	return false;
}
