/*
 * Addresses of other hubs than the connected one, for a second tunnel: the further addresses of the
 * place that is connected, then those of the other entries of hub.url, looked up after each hello.
 */
#include <string.h>

#include "meta/client/hub_client_private.h"

struct lookup {
	struct hub_client *of;
	const struct place *place;
	unsigned connection;
};

static void
hub_client_add_other(struct hub_client *f, const struct place *place, const struct addr *a)
{
	if (a->sa.sa_family == AF_UNIX || f->n_others == HUB_CLIENT_OTHERS_MAX ||
		hub_addresses_same(a, &f->greeted_at))
		return;
	for (size_t i = 0; i < f->n_others; i++)
		if (hub_addresses_same(&f->others[i].addr, a))
			return;
	f->others[f->n_others++] = (struct other_hub){place, *a};
}

static void
on_found(void *arg, int status, const struct addr *addrs, size_t n)
{
	struct lookup *l = arg;
	struct hub_client *f = l->of;
	const size_t before = f->n_others;

	if (status == 0 && l->connection == f->connection && !f->stopping) {
		for (size_t i = 0; i < n; i++)
			hub_client_add_other(f, l->place, &addrs[i]);
		if (f->n_others > before)
			hub_client_tell_hub(f);
	}
	free(l);
}

void
hub_client_find_others(struct hub_client *f)
{
	f->n_others = 0;
	if (!f->wants_others || f->proxy.host[0] != '\0')
		return;
	for (size_t i = 0; i < f->places.n_addrs; i++)
		hub_client_add_other(f, f->greeted, &f->places.addrs[i]);
	for (size_t i = 0; i < f->places.n; i++) {
		const struct place *p = &f->places.place[i];
		struct lookup *l;

		if (p == f->greeted || f->resolve == NULL)
			continue;
		l = xcalloc(1, sizeof *l);
		*l = (struct lookup){f, p, f->connection};
		resolve_host(f->resolve, p->at.host, p->at.port, on_found, l);
	}
}

bool
hub_client_other_hub(const struct hub_client *f, size_t i, struct hub_client_hub *to)
{
	if (i >= f->n_others || !hub_client_hub(f, to))
		return false;
	to->addr = f->others[i].addr;
	hub_client_aim_at(f->others[i].place, to);
	return true;
}
