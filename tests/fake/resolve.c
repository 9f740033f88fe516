/* In place of base/net/resolve: every name is this machine, in the next turn. */
#include "base/net/resolve.h"

struct resolve {
	struct timer *timer;
	resolve_host_fn *fn;
	void *arg;
	uint16_t port;
};

static void
on_resolved(void *arg)
{
	struct resolve *r = arg;
	struct addr at = addr_ipv4(0x7f000001, r->port);

	r->fn(r->arg, 0, &at, 1);
}

int
resolve_new(
	struct resolve **r, struct loop *loop, const struct resolve_config *config, struct err *err)
{
	(void)config;
	(void)err;
	*r = xcalloc(1, sizeof(**r));
	(*r)->timer = timer_new(loop, on_resolved, *r);
	return 0;
}

void
resolve_free(struct resolve **out)
{
	struct resolve *r = take_ptr(out);

	if (r == NULL)
		return;
	timer_free(&r->timer);
	free(r);
}

void
resolve_host(struct resolve *r, const char *name, uint16_t port, resolve_host_fn *fn, void *arg)
{
	(void)name;
	r->port = port;
	r->fn = fn;
	r->arg = arg;
	timer_start(r->timer, 0, 0);
}
