/*
 * The addresses of all hubs, for a second tunnel: those of the place that is connected, then those
 * of the other entries of hub.url, looked up after each hello and when the owner asks. What a place
 * had is kept until a lookup brings something else.
 */
#include <string.h>

#include "meta/client/hub_client_private.h"

struct lookup {
	struct hub_client *of;
	const struct place *place;
};

/* Replaces what is known of this place. Returns true if that is something else now. */
static bool
hub_client_set_known(
	struct hub_client *f, const struct place *place, const struct addr *addrs, size_t n)
{
	struct known_hub before[HUB_CLIENT_KNOWN_MAX];
	const size_t n_before = f->n_known;

	memcpy(before, f->known, sizeof before);
	f->n_known = 0;
	for (size_t i = 0; i < n_before; i++)
		if (before[i].place != place)
			f->known[f->n_known++] = before[i];
	for (size_t i = 0; i < n && f->n_known < HUB_CLIENT_KNOWN_MAX; i++)
		if (addrs[i].sa.sa_family != AF_UNIX)
			f->known[f->n_known++] = (struct known_hub){place, addrs[i]};
	if (f->n_known != n_before)
		return true;
	for (size_t i = 0; i < n_before; i++)
		if (!hub_addresses_same(&before[i].addr, &f->known[i].addr))
			return true;
	return false;
}

static void
on_found(void *arg, int status, const struct addr *addrs, size_t n)
{
	struct lookup *l = arg;
	struct hub_client *f = l->of;

	if (status == 0 && n > 0 && !f->stopping && l->place != f->greeted &&
		hub_client_set_known(f, l->place, addrs, n))
		hub_client_tell_hub(f);
	free(l);
}

void
hub_client_find_hubs(struct hub_client *f)
{
	if (!f->finds_hubs || f->greeted == NULL || f->proxy.host[0] != '\0')
		return;
	if (f->greeted == hub_addresses_now(&f->places) && f->places.n_addrs > 0)
		hub_client_set_known(f, f->greeted, f->places.addrs, f->places.n_addrs);
	for (size_t i = 0; i < f->places.n; i++) {
		const struct place *p = &f->places.place[i];
		struct lookup *l;

		if (p == f->greeted || f->resolve == NULL)
			continue;
		l = xcalloc(1, sizeof *l);
		*l = (struct lookup){f, p};
		resolve_host(f->resolve, p->at.host, p->at.port, on_found, l);
	}
}

bool
hub_client_known_hub(const struct hub_client *f, size_t i, struct hub_client_hub *to)
{
	if (i >= f->n_known || !hub_client_hub(f, to))
		return false;
	to->addr = f->known[i].addr;
	hub_client_aim_at(f->known[i].place, to);
	return true;
}
