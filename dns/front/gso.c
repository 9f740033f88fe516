#include "dns/front/gso.h"

enum { LEN_BITS = 16 };

uint64_t
gso_key(uint32_t client, uint16_t port, uint16_t len)
{
	return (uint64_t)client << 32 | (uint64_t)port << LEN_BITS | (uint16_t)~len;
}

void
gso_sort(struct gso_item *items, size_t n)
{
	/* Insertion sort: a batch is short, and each client's answers are usually adjacent
	 * already. */
	for (size_t i = 1; i < n; i++) {
		struct gso_item item = items[i];
		size_t at = i;

		for (; at > 0 && items[at - 1].key > item.key; at--)
			items[at] = items[at - 1];
		items[at] = item;
	}
}

size_t
gso_next(const struct gso_item *items, size_t n)
{
	size_t k = 1;

	while (k < n && items[k].key == items[0].key)
		k++;
	/* A shorter one may end the group. */
	if (k < n && items[k].key >> LEN_BITS == items[0].key >> LEN_BITS)
		k++;
	return k;
}
