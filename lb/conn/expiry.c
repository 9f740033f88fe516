#include "lb/conn/expiry.h"

void
expiries_init(struct expiries *all)
{
	for (int i = 0; i < SPAN_COUNT; i++)
		list_init(&all->rings[i]);
}

void
expiry_init(struct expiry *e, loop_fn *fn, void *arg)
{
	list_init(&e->node);
	e->fn = fn;
	e->arg = arg;
}

void
expiry_set(struct expiries *all, struct expiry *e, enum span span, uint64_t now_ms)
{
	list_del(&e->node);
	e->since_ms = now_ms;
	list_add_before(&all->rings[span], &e->node);
}

void
expiry_cancel(struct expiry *e)
{
	list_del(&e->node);
}

bool
expiries_run(struct expiries *all, uint64_t now_ms)
{
	bool ran = false;

	for (int i = 0; i < SPAN_COUNT; i++) {
		struct node *ring = &all->rings[i];

		while (!list_empty(ring)) {
			struct expiry *e = container_of(ring->next, struct expiry, node);

			if (now_ms - e->since_ms < all->span_ms[i])
				break;
			list_del(&e->node);
			e->fn(e->arg);
			ran = true;
		}
	}
	return ran;
}

uint64_t
expiries_next(const struct expiries *all)
{
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < SPAN_COUNT; i++) {
		const struct node *ring = &all->rings[i];

		if (!list_empty(ring))
			next = MIN(next,
				container_of(ring->next, struct expiry, node)->since_ms +
					all->span_ms[i]);
	}
	return next;
}

void
expiries_flush(struct expiries *all, enum span span)
{
	struct node *ring = &all->rings[span];

	while (!list_empty(ring)) {
		struct expiry *e = container_of(ring->next, struct expiry, node);

		list_del(&e->node);
		e->fn(e->arg);
	}
}
