#include <string.h>

#include "base/core/hash.h"
#include "meta/state/apply_private.h"

/* A service that changes a thousand times while the disk is full takes one entry: memory is bounded
 * by the number of services. */
enum { BUCKETS = 1024 };

struct held {
	struct item *first, *last; /* by next and prev */
	struct item *bucket[BUCKETS]; /* by chain */
};

static struct item **
place_of(struct held *h, const struct item *like)
{
	struct item **at = &h->bucket[hash64(like->key, strlen(like->key), 0) % BUCKETS];

	/* notes and services have separate names */
	while (*at != NULL &&
		(((*at)->kind == ITEM_NOTE) != (like->kind == ITEM_NOTE) ||
			strcmp((*at)->key, like->key) != 0))
		at = &(*at)->chain;
	return at;
}

static struct item *
take_out(struct held *h, struct item **at)
{
	struct item *it = *at;

	*at = it->chain;
	*(it->prev != NULL ? &it->prev->next : &h->first) = it->next;
	*(it->next != NULL ? &it->next->prev : &h->last) = it->prev;
	it->next = it->prev = it->chain = NULL;
	return it;
}

/* Appends, because an address that one service released may belong to another by now: the order of
 * writing matters. */
static void
apply_held_append(struct held *h, struct item *it)
{
	struct item **at = place_of(h, it);

	it->chain = *at;
	*at = it;
	it->next = NULL;
	it->prev = h->last;
	*(h->last != NULL ? &h->last->next : &h->first) = it;
	h->last = it;
}

void
held_add(struct apply *a, struct item *it)
{
	struct item **at, *old = NULL;

	if (it->superseded) {
		apply_drop(a, it);
		return;
	}
	if (a->held == NULL)
		a->held = xcalloc(1, sizeof(*a->held));
	at = place_of(a->held, it);
	if (*at != NULL)
		old = take_out(a->held, at);
	if (old != NULL &&
		(it->kind == ITEM_ADDRESS || it->kind == ITEM_HOLD || it->kind == ITEM_REST)) {
		/* adds only the address to the item that waits already */
		if (it->kind == ITEM_ADDRESS && old->kind != ITEM_DELETE)
			old->ip = it->ip;
		apply_drop(a, it);
		it = take_ptr(&old);
	}
	if (old != NULL)
		apply_drop(a, old);
	apply_held_append(a->held, it);
}

struct item *
held_take(struct apply *a)
{
	struct held *h = take_ptr(&a->held);
	struct item *first = h != NULL ? h->first : NULL;

	free(h);
	return first;
}
