#include "hub/sync/node_filter.h"

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

bool
node_filter_has(const struct node_filter *s, const struct fanout_item *item)
{
	return item->present && (s->enforces || !item->restricted) &&
		selector_matches(item->nodes, &s->labels);
}

bool
node_filter_had(const struct node_filter *s, const struct fanout_item *item)
{
	return item->was_present && (s->enforces || !item->was_restricted) &&
		selector_matches(item->was_nodes, &s->labels);
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
