#include "hub/sync/node_book.h"

#include <string.h>

struct node_book {
	struct node_entry *list;
	size_t n, room;
	const char **above; /* parent domains of names in `list`, sorted, without duplicates */
	size_t n_above;
};

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct node_entry *)a)->name, ((const struct node_entry *)b)->name);
}

static void
node_book_add(struct node_book *b, const char *name, bool joined)
{
	if (b->n == b->room) {
		b->room = MAX(b->room * 2, (size_t)64);
		b->list = xrealloc(b->list, b->room * sizeof *b->list);
	}
	b->list[b->n++] = (struct node_entry){xstrdup(name), joined};
}

static void
add_node(void *arg, const struct cluster_node_facts *node)
{
	node_book_add(arg, node->name, false);
}

/* Merges the two entries of a node that has joined and also has a Node object. */
static void
sort_names(struct node_book *b)
{
	size_t kept = 0;

	if (b->n == 0)
		return;
	qsort(b->list, b->n, sizeof *b->list, by_name);
	for (size_t i = 1; i < b->n; i++) {
		if (strcmp(b->list[kept].name, b->list[i].name) != 0) {
			b->list[++kept] = b->list[i];
			continue;
		}
		b->list[kept].joined |= b->list[i].joined;
		free(b->list[i].name);
	}
	b->n = kept + 1;
}

static void
find_above(struct node_book *b)
{
	size_t room = 0, kept = 0;

	for (size_t i = 0; i < b->n; i++) {
		for (const char *dot = strchr(b->list[i].name, '.'); dot != NULL;
			dot = strchr(dot + 1, '.')) {
			if (b->n_above == room) {
				room = MAX(room * 2, (size_t)64);
				b->above = xrealloc(b->above, room * sizeof *b->above);
			}
			b->above[b->n_above++] = dot + 1;
		}
	}
	if (b->n_above == 0)
		return;
	qsort(b->above, b->n_above, sizeof *b->above, compare_texts);
	for (size_t i = 1; i < b->n_above; i++)
		if (strcmp(b->above[kept], b->above[i]) != 0)
			b->above[++kept] = b->above[i];
	b->n_above = kept + 1;
}

struct node_book *
node_book_new(const struct cluster *c, char *const *joined, size_t n)
{
	struct node_book *b = xcalloc(1, sizeof *b);

	cluster_each_node(c, add_node, b);
	for (size_t i = 0; i < n; i++)
		node_book_add(b, joined[i], true);
	sort_names(b);
	find_above(b);
	return b;
}

void
node_book_free(struct node_book **out)
{
	struct node_book *b = take_ptr(out);

	if (b == NULL)
		return;
	for (size_t i = 0; i < b->n; i++)
		free(b->list[i].name);
	free(b->list);
	free(b->above);
	free(b);
}

const struct node_entry *
node_book_find(const struct node_book *b, const char *name)
{
	size_t low = 0, high = b->n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		int order = strcmp(b->list[mid].name, name);

		if (order == 0)
			return &b->list[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

bool
node_book_above(const struct node_book *b, const char *name)
{
	return b->n_above > 0 &&
		bsearch(&name, b->above, b->n_above, sizeof *b->above, compare_texts) != NULL;
}

size_t
node_book_count(const struct node_book *b)
{
	return b->n;
}

const struct node_entry *
node_book_at(const struct node_book *b, size_t i)
{
	return &b->list[i];
}
