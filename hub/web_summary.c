#include "hub/web_summary.h"

#include <string.h>

struct summary {
	struct service_summary *services; /* by the fanout's numbers */
	uint32_t n_services, next; /* next: where reading of views goes on */
	const struct service_summary **sorted; /* those that are there */
	size_t n_sorted;
};

static bool
serves(const struct view_endpoint *e)
{
	return (e->flags & (ENDPOINT_READY | ENDPOINT_SERVING)) != 0;
}

static void
read_view(struct service_summary *to, const struct fanout_item *item)
{
	struct view *v;
	struct err err = {0};

	to->known = true;
	if (view_parse(&v, item->content, item->content_len, &err) < 0)
		return; /* our own words: not to be */
	to->headless = v->headless;
	to->external = v->external_name != NULL && v->external_name[0] != '\0';
	for (size_t p = 0; p < v->n_ports; p++) {
		uint16_t ready = 0;

		to->ports += !v->ports[p].extra;
		for (size_t e = 0; e < v->ports[p].n_endpoints; e++)
			ready += serves(&v->ports[p].endpoints[e]);
		to->endpoints = (uint16_t)MAX((size_t)to->endpoints, v->ports[p].n_endpoints);
		to->ready = MAX(to->ready, ready);
	}
	view_free(&v);
}

static void
forget(struct service_summary *s)
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

/* Whose number is now another's, or nobody's. True: the list of keys has changed. */
static bool
follow(struct service_summary *to, const struct fanout_item *item)
{
	bool there = item != NULL && item->present;

	if (to->key != NULL && (!there || strcmp(to->key, item->key) != 0)) {
		forget(to);
		if (!there)
			return true;
	}
	if (!there)
		return false;
	if (to->key != NULL) {
		if (to->digest != item->digest)
			*to = (struct service_summary){.key = to->key, .digest = item->digest};
		return false;
	}
	*to = (struct service_summary){.key = xstrdup(item->key), .digest = item->digest};
	return true;
}

static void
read_views(struct summary *s, const struct fanout *f)
{
	unsigned read = 0;

	for (uint32_t i = 0; i < s->n_services && read < SUMMARY_VIEWS; i++) {
		uint32_t at = (s->next + i) % s->n_services;

		if (s->services[at].key == NULL || s->services[at].known)
			continue;
		read_view(&s->services[at], fanout_at(f, at));
		if (++read == SUMMARY_VIEWS)
			s->next = at;
	}
}

void
summary_take(struct summary *s, const struct fanout *f)
{
	uint32_t slots = fanout_slots(f);
	bool changed = false;

	if (slots > s->n_services) {
		s->services = xrealloc(s->services, slots * sizeof *s->services);
		memset(s->services + s->n_services, 0,
			(slots - s->n_services) * sizeof *s->services);
		s->n_services = slots;
		changed = true; /* they may have moved */
	}
	for (uint32_t i = 0; i < s->n_services; i++)
		changed |= follow(&s->services[i], i < slots ? fanout_at(f, i) : NULL);
	read_views(s, f);
	if (changed)
		sort_services(s);
}

size_t
summary_list(const struct summary *s, const struct service_summary *const **list)
{
	*list = s->sorted;
	return s->n_sorted;
}

bool
summary_is_idle(const struct service_summary *s)
{
	return s->known && s->ready == 0 && !s->external;
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
		forget(&s->services[i]);
	free(s->services);
	free(s->sorted);
	free(s);
}
