#include "hub/sync/node_filter.h"

#include <string.h>

#include "model/limits.h"

void
node_filter_init(struct node_filter *s, const struct kube_labels *labels, bool enforces)
{
	s->enforces = enforces;
	s->labels = kube_labels_copy(labels);
}

void
node_filter_fini(struct node_filter *s)
{
	kube_labels_free(&s->labels);
}

/* Where the item is, or would be. */
static uint32_t
node_filter_place(const struct node_filter *s, const struct fanout_item *item)
{
	uint32_t low = 0, high = s->n_pods;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((uintptr_t)s->pods[middle] < (uintptr_t)item)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool
node_filter_wants(const struct node_filter *s, const struct fanout_item *item)
{
	uint32_t at = node_filter_place(s, item);

	return at < s->n_pods && s->pods[at] == item;
}

bool
node_filter_want(struct node_filter *s, struct fanout *f, struct fanout_item *item)
{
	uint32_t at = node_filter_place(s, item);

	if (at < s->n_pods && s->pods[at] == item)
		return true;
	if (s->n_pods == MESH_NODE_PODS_MAX)
		return false;
	s->pods = xrealloc(s->pods, (s->n_pods + 1) * sizeof(struct fanout_item *));
	memmove(s->pods + at + 1, s->pods + at, (s->n_pods - at) * sizeof(struct fanout_item *));
	s->pods[at] = item;
	s->n_pods++;
	fanout_want_pod(f, item);
	return true;
}

bool
node_filter_unwant(struct node_filter *s, struct fanout *f, struct fanout_item *item)
{
	uint32_t at = node_filter_place(s, item);

	if (!node_filter_wants(s, item))
		return false;
	s->n_pods--;
	memmove(s->pods + at, s->pods + at + 1, (s->n_pods - at) * sizeof(struct fanout_item *));
	fanout_unwant_pod(f, item);
	return true;
}

void
node_filter_unwant_all(struct node_filter *s, struct fanout *f)
{
	while (s->n_pods > 0)
		fanout_unwant_pod(f, s->pods[--s->n_pods]);
	free(take_ptr(&s->pods));
}

static bool
node_filter_takes_pod(
	const struct node_filter *s, const struct fanout_item *item, const char *pod_node)
{
	return !item->pod || node_filter_wants(s, item) ||
		(s->node != NULL && strcmp(pod_node, s->node) == 0);
}

bool
node_filter_has(const struct node_filter *s, const struct fanout_item *item)
{
	return item->present && (s->enforces || !item->restricted) &&
		selector_matches(item->nodes, &s->labels) &&
		node_filter_takes_pod(s, item, item->pod_node);
}

bool
node_filter_had(const struct node_filter *s, const struct fanout_item *item)
{
	return item->was_present && (s->enforces || !item->was_restricted) &&
		selector_matches(item->was_nodes, &s->labels) &&
		node_filter_takes_pod(s, item, item->was_pod_node);
}

void
node_filter_digests(const struct node_filter *s, const struct fanout *f, struct digests *d)
{
	*d = *fanout_digests(f);
	for (struct fanout_item *i = NULL; (i = fanout_narrowed(f, i)) != NULL;) {
		if (!node_filter_has(s, i))
			digest_toggle(d, i->key, strlen(i->key), i->digest);
	}
}
