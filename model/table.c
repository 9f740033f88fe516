#include "model/table.h"

#include <assert.h>

/* Nodes for each slot, on average, before a table grows: slots cost memory as nodes do. */
enum { TABLE_LOAD = 2 };

void
table_fini(struct table *t)
{
	free(t->slots);
	*t = (struct table){0};
}

static void
put_first(struct table_node **slot, struct table_node *node)
{
	node->next = *slot;
	node->at = slot;
	if (node->next != NULL)
		node->next->at = &node->next;
	*slot = node;
}

static void
table_grow(struct table *t)
{
	struct table bigger = {.n_slots = t->n_slots == 0 ? 16 : t->n_slots * 2};

	bigger.slots = xcalloc(bigger.n_slots, sizeof *bigger.slots);
	for (size_t i = 0; i < t->n_slots; i++) {
		struct table_node *node = t->slots[i];

		while (node != NULL) {
			struct table_node *next = node->next;

			put_first(&bigger.slots[node->hash & (bigger.n_slots - 1)], node);
			node = next;
		}
	}
	bigger.n = t->n;
	free(t->slots);
	*t = bigger;
}

void
table_add(struct table *t, struct table_node *node, uint64_t hash)
{
	if (t->n >= t->n_slots * TABLE_LOAD)
		table_grow(t);
	node->hash = hash & (UINT64_MAX >> 16);
	put_first(&t->slots[hash & (t->n_slots - 1)], node);
	t->n++;
}

void
table_remove(struct table *t, struct table_node *node)
{
	assert(t->n > 0 && *node->at == node);
	*node->at = node->next;
	if (node->next != NULL)
		node->next->at = node->at;
	t->n--;
}

struct table_node *
table_first(const struct table *t, uint64_t hash)
{
	struct table_node *node = t->n > 0 ? t->slots[hash & (t->n_slots - 1)] : NULL;

	while (node != NULL && !table_is(node, hash))
		node = node->next;
	return node;
}

struct table_node *
table_next(const struct table_node *node)
{
	struct table_node *next = node->next;

	while (next != NULL && next->hash != node->hash)
		next = next->next;
	return next;
}

struct table_node *
table_walk(const struct table *t, size_t *slot, const struct table_node *node)
{
	if (node != NULL && node->next != NULL)
		return node->next;
	if (node != NULL)
		(*slot)++;
	for (; *slot < t->n_slots; (*slot)++)
		if (t->slots[*slot] != NULL)
			return t->slots[*slot];
	return NULL;
}
