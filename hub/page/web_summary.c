#include "hub/page/web_summary.h"

#include <string.h>

#include "model/mesh.h"

struct summary {
	struct service_summary *services; /* indexed by the fanout's item numbers */
	uint32_t n_services;
	const struct service_summary **sorted; /* those that exist */
	size_t n_sorted;
};

static void
web_summary_forget(struct service_summary *s)
{
	free((void *)(uintptr_t)s->key);
	*s = (struct service_summary){0};
}

static int
compare_services(const void *a, const void *b)
{
	const struct service_summary *const *x = a, *const *y = b;

	return strcmp((*x)->key, (*y)->key);
}

static void
sort_services(struct summary *s)
{
	s->n_sorted = 0;
	s->sorted = xrealloc(s->sorted, MAX(s->n_services, 1U) * sizeof *s->sorted);
	for (uint32_t i = 0; i < s->n_services; i++)
		if (s->services[i].key != NULL)
			s->sorted[s->n_sorted++] = &s->services[i];
	if (s->n_sorted > 1)
		qsort(s->sorted, s->n_sorted, sizeof *s->sorted, compare_services);
}

/* Updates one entry, whose number may now be another item's, or free. True: the list of keys has
 * changed. */
static bool
web_summary_follow(struct service_summary *to, const struct fanout_item *item)
{
	bool there = item != NULL && item->present, changed;

	changed = to->key != NULL && (!there || strcmp(to->key, item->key) != 0);
	if (changed)
		web_summary_forget(to);
	if (!there)
		return changed;
	if (to->key == NULL) {
		to->key = xstrdup(item->key);
		changed = true;
	}
	to->counts = item->counts;
	return changed;
}

static bool
has_fault(const struct cluster *c, const char *key)
{
	const char *slash = strchr(key, '/');
	char ns[MESH_NAME_MAX + 1] = "";

	if ((size_t)(slash - key) >= sizeof ns)
		return false;
	memcpy(ns, key, (size_t)(slash - key));
	return cluster_problem_class(cluster_problem(c, ns, slash + 1)) == FINDING_FAULT;
}

void
summary_take(struct summary *s, const struct fanout *f, const struct cluster *c)
{
	uint32_t slots = fanout_slots(f);
	bool changed = false;

	if (slots > s->n_services) {
		s->services = xrealloc(s->services, slots * sizeof *s->services);
		memset(s->services + s->n_services, 0,
			(slots - s->n_services) * sizeof *s->services);
		s->n_services = slots;
		changed = true; /* xrealloc may have moved them */
	}
	for (uint32_t i = 0; i < s->n_services; i++) {
		changed |= web_summary_follow(&s->services[i], i < slots ? fanout_at(f, i) : NULL);
		if (s->services[i].key != NULL)
			s->services[i].fault = has_fault(c, s->services[i].key);
	}
	if (changed)
		sort_services(s);
}

size_t
summary_list(const struct summary *s, const struct service_summary *const **list)
{
	*list = s->sorted;
	return s->n_sorted;
}

struct summary *
summary_new(void)
{
	return xcalloc(1, sizeof(struct summary));
}

void
summary_free(struct summary **out)
{
	struct summary *s = take_ptr(out);

	if (s == NULL)
		return;
	for (uint32_t i = 0; i < s->n_services; i++)
		web_summary_forget(&s->services[i]);
	free(s->services);
	free(s->sorted);
	free(s);
}
