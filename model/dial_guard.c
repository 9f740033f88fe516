#include "model/dial_guard.h"

#include <errno.h>
#include <string.h>

#include "base/core/util.h"
#include "model/check.h"

struct dial_guard {
	_Atomic unsigned refs;
	struct address_list *own; /* NULL: none yet */
	size_t n_allowed;
	struct allowed_net {
		struct in6_addr prefix;
		unsigned bits;
	} allowed[];
};

static struct dial_guard *
guard_alloc(size_t n_allowed)
{
	struct dial_guard *g = xcalloc(1, sizeof *g + n_allowed * sizeof g->allowed[0]);

	atomic_init(&g->refs, 1);
	g->n_allowed = n_allowed;
	return g;
}

int
dial_guard_new(const char *const *allowed, struct dial_guard **out, struct err *err)
{
	struct dial_guard *g;
	size_t n = 0;

	while (allowed != NULL && allowed[n] != NULL)
		n++;
	if (n > DIAL_GUARD_ALLOWED_MAX)
		return err_set(err, EINVAL, "more than %d addresses", DIAL_GUARD_ALLOWED_MAX);
	g = guard_alloc(n);
	for (size_t i = 0; i < n; i++) {
		struct allowed_net *net = &g->allowed[i];

		if (ip_net_parse(allowed[i], &net->prefix, &net->bits))
			continue;
		dial_guard_unref(&g);
		return err_set(err, EINVAL,
			"\"%.80s\" is neither an address nor a network, such as 192.0.2.7 or "
			"169.254.20.0/24",
			allowed[i]);
	}
	*out = g;
	return 0;
}

struct dial_guard *
dial_guard_with(const struct dial_guard *g, const struct address_list *own)
{
	struct dial_guard *next = guard_alloc(g->n_allowed);

	memcpy(next->allowed, g->allowed, g->n_allowed * sizeof g->allowed[0]);
	next->own = address_list_ref(own);
	return next;
}

struct dial_guard *
dial_guard_ref(const struct dial_guard *g)
{
	struct dial_guard *counted = (struct dial_guard *)(uintptr_t)g;

	atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
	return counted;
}

void
dial_guard_unref(struct dial_guard **g)
{
	struct dial_guard *gone = take_ptr(g);

	if (gone == NULL || atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) > 1)
		return;
	address_list_unref(&gone->own);
	free(gone);
}

const struct address_list *
dial_guard_own(const struct dial_guard *g)
{
	return g != NULL ? g->own : NULL;
}

static bool
is_allowed(const struct dial_guard *g, const struct in6_addr *ip)
{
	const struct in6_addr inner = special_addr_inner(ip);

	for (size_t i = 0; g != NULL && i < g->n_allowed; i++)
		if (special_addr_in_net(&inner, &g->allowed[i].prefix, g->allowed[i].bits))
			return true;
	return false;
}

enum special_addr
dial_guard_check(const struct dial_guard *g, const struct in6_addr *ip, bool host_network)
{
	enum special_addr class = special_addr_class(ip);

	if (class == SPECIAL_NONE && !host_network && address_list_has(dial_guard_own(g), ip))
		class = SPECIAL_OWN;
	return class != SPECIAL_NONE && is_allowed(g, ip) ? SPECIAL_NONE : class;
}
