#include "base/core/address_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/special_addr.h"
#include "base/core/util.h"

static int
by_address(const void *a, const void *b)
{
	const struct own_address *x = a, *y = b;
	int order = memcmp(&x->ip, &y->ip, sizeof x->ip);

	return order != 0 ? order : strcmp(x->interface, y->interface);
}

struct address_list *
address_list_new(const struct own_address *list, size_t n)
{
	struct address_list *l = xcalloc(1, sizeof *l + n * sizeof *list);

	atomic_init(&l->refs, 1);
	l->n = n;
	if (n > 0) {
		memcpy(l->list, list, n * sizeof *list);
		qsort(l->list, n, sizeof *list, by_address);
	}
	return l;
}

/* Only the reference count is mutable. */
static struct address_list *
address_list_counted(const struct address_list *l)
{
	return (struct address_list *)(uintptr_t)l;
}

struct address_list *
address_list_ref(const struct address_list *l)
{
	atomic_fetch_add_explicit(&address_list_counted(l)->refs, 1, memory_order_relaxed);
	return address_list_counted(l);
}

void
address_list_unref(struct address_list **l)
{
	struct address_list *gone = take_ptr(l);

	if (gone != NULL && atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) == 1)
		free(gone);
}

bool
address_list_has(const struct address_list *l, const struct in6_addr *ip)
{
	const struct in6_addr inner = special_addr_inner(ip);
	size_t low = 0, high = l != NULL ? l->n : 0;

	while (low < high) {
		size_t at = low + (high - low) / 2;
		int order = memcmp(&l->list[at].ip, &inner, sizeof inner);

		if (order == 0)
			return true;
		if (order < 0)
			low = at + 1;
		else
			high = at;
	}
	return false;
}

bool
address_list_on_net(const struct address_list *l, const struct in6_addr *ip)
{
	const struct in6_addr inner = special_addr_inner(ip);

	for (size_t i = 0; l != NULL && i < l->n; i++)
		if (special_addr_in_net(&inner, &l->list[i].ip, l->list[i].bits))
			return true;
	return false;
}
