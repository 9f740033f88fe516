#include "hub/sync/pending.h"

#include <assert.h>

void
pending_init(struct pending *p, struct fanout *f)
{
	*p = (struct pending){.fanout = f};
}

void
pending_fini(struct pending *p)
{
	assert(p->n == 0);
	free(p->state);
	free(p->queue);
}

uint8_t *
pending_state(struct pending *p, const struct fanout_item *item)
{
	if (item->index >= p->n_state) {
		uint32_t n = item->index + 1 + (item->index + 1) / 2;

		p->state = xrealloc(p->state, n);
		memset(p->state + p->n_state, 0, n - p->n_state);
		p->n_state = n;
	}
	return &p->state[item->index];
}

static void
pending_grow(struct pending *p)
{
	uint32_t room = p->room > 0 ? p->room * 2 : 64;
	uint32_t *queue = xmalloc(room * sizeof *queue);

	for (uint32_t i = 0; i < p->n; i++)
		queue[i] = p->queue[(p->head + i) % p->room];
	free(p->queue);
	p->queue = queue;
	p->room = room;
	p->head = 0;
}

void
pending_again(struct pending *p, const struct fanout_item *item)
{
	if (p->n == p->room)
		pending_grow(p);
	p->queue[(p->head + p->n++) % p->room] = item->index;
	p->pushed++;
}

bool
pending_add(struct pending *p, struct fanout_item *item)
{
	uint8_t *st = pending_state(p, item);

	if (*st & PENDING_WAITS)
		return false;
	*st |= PENDING_WAITS;
	fanout_hold(item);
	if (!(*st & PENDING_FLIGHT))
		pending_again(p, item);
	return true;
}

void
pending_rest(struct pending *p)
{
	if (p->n > 0)
		return;
	free(take_ptr(&p->queue));
	p->room = p->head = 0;
	for (uint32_t i = 0; i < p->n_state; i++) {
		if (p->state[i] != 0)
			return;
	}
	free(take_ptr(&p->state));
	p->n_state = 0;
}

struct fanout_item *
pending_pop(struct pending *p)
{
	struct fanout_item *item;
	uint8_t *st;

	if (p->n == 0)
		return NULL;
	item = fanout_at(p->fanout, p->queue[p->head]);
	assert(item != NULL); /* held while it waits */
	p->head = (p->head + 1) % p->room;
	p->n--;
	p->popped++;
	st = pending_state(p, item);
	*st = (uint8_t)((*st & ~PENDING_WAITS) | PENDING_FLIGHT);
	return item;
}
