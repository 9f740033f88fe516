/*
 * Addresses of other hubs than the connected one, for a second tunnel: the further addresses of the
 * place that is connected, then those of the other entries of hub.url, looked up after each hello
 * and when the owner asks. What a place had is kept until a lookup brings something else.
 */
#include <string.h>

#include "meta/client/hub_client_private.h"

struct lookup {
	struct hub_client *of;
	const struct place *place;
};

/* Replaces what is known of this place. Returns true if that is something else now. */
static bool
hub_client_set_others(
	struct hub_client *f, const struct place *place, const struct addr *addrs, size_t n)
{
	struct other_hub before[HUB_CLIENT_OTHERS_MAX];
	const size_t n_before = f->n_others;

	memcpy(before, f->others, sizeof before);
	f->n_others = 0;
	for (size_t i = 0; i < n_before; i++)
		if (before[i].place != place)
			f->others[f->n_others++] = before[i];
	for (size_t i = 0; i < n && f->n_others < HUB_CLIENT_OTHERS_MAX; i++)
		if (addrs[i].sa.sa_family != AF_UNIX)
			f->others[f->n_others++] = (struct other_hub){place, addrs[i]};
	if (f->n_others != n_before)
		return true;
	for (size_t i = 0; i < n_before; i++)
		if (!hub_addresses_same(&before[i].addr, &f->others[i].addr))
			return true;
	return false;
}

static void
on_found(void *arg, int status, const struct addr *addrs, size_t n)
{
	struct lookup *l = arg;
	struct hub_client *f = l->of;

	if (status == 0 && n > 0 && !f->stopping && l->place != f->greeted &&
		hub_client_set_others(f, l->place, addrs, n))
		hub_client_tell_hub(f);
	free(l);
}

void
hub_client_find_others(struct hub_client *f)
{
	if (!f->wants_others || f->greeted == NULL || f->proxy.host[0] != '\0')
		return;
	if (f->greeted == hub_addresses_now(&f->places) && f->places.n_addrs > 0)
		hub_client_set_others(f, f->greeted, f->places.addrs, f->places.n_addrs);
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
hub_client_other_hub(const struct hub_client *f, size_t i, struct hub_client_hub *to)
{
	if (i >= f->n_others || !hub_client_hub(f, to))
		return false;
	to->addr = f->others[i].addr;
	hub_client_aim_at(f->others[i].place, to);
	return true;
}
