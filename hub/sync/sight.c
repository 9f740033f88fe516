#include "hub/sync/sight.h"

void
sight_init(struct sight *s, const struct kube_labels *labels, bool enforces)
{
	s->enforces = enforces;
	s->labels = kube_labels_copy(labels);
}

void
sight_fini(struct sight *s)
{
	kube_labels_free(&s->labels);
}

bool
sight_has(const struct sight *s, const struct fanout_item *item)
{
	return item->present && (s->enforces || !item->restricted) &&
		selector_matches(item->nodes, &s->labels);
}

bool
sight_had(const struct sight *s, const struct fanout_item *item)
{
	return item->was_present && (s->enforces || !item->was_restricted) &&
		selector_matches(item->was_nodes, &s->labels);
}

void
sight_digests(const struct sight *s, const struct fanout *f, struct digests *d)
{
	*d = *fanout_digests(f);
	for (struct fanout_item *i = NULL; (i = fanout_narrowed(f, i)) != NULL;) {
		if (!sight_has(s, i))
			digest_toggle(d, i->key, strlen(i->key), i->digest);
	}
}
