#include "tunnel/node/egress_client_udp_choice.h"

#include <string.h>

#include "base/core/hash.h"

static bool
is_at(const struct endpoint *e, const struct choice_place *place)
{
	return e->port == place->port && memcmp(&e->ip, &place->ip, sizeof e->ip) == 0;
}

/* If this node can send to an endpoint directly, the hub is no fallback: nobody sees whether
 * datagrams arrive. */
bool
choice_needs_hub(const struct service_port *p)
{
	bool far = false;

	if (p->mode != PORT_UDP)
		return false;
	for (unsigned i = 0; i < p->n_endpoints; i++) {
		const struct endpoint *e = &p->endpoints[i];

		if (e->via == VIA_TUNNEL)
			far = true;
		else if (IN6_IS_ADDR_V4MAPPED(&e->ip) || IN6_IS_ADDR_V4MAPPED(&e->other))
			return false;
	}
	return far;
}

bool
choice_has(const struct service_port *p, const struct choice_place *place)
{
	for (unsigned i = 0; i < p->n_endpoints; i++)
		if (is_at(&p->endpoints[i], place))
			return true;
	return false;
}

static bool
was_tried(const struct choice_ask *ask, const struct endpoint *e)
{
	for (unsigned i = 0; i < ask->n_tried; i++)
		if (is_at(e, &ask->tried[i]))
			return true;
	return false;
}

static bool
is_ill(const struct choice_ask *ask, const struct endpoint *e)
{
	for (unsigned i = 0; i < CHOICE_ILL; i++)
		if (ask->ill->until_ms[i] > ask->now_ms && is_at(e, &ask->ill->places[i]))
			return true;
	return false;
}

static uint64_t
egress_client_udp_choice_weight(const struct endpoint *e, uint64_t key)
{
	uint8_t bytes[sizeof e->ip + sizeof e->port];

	memcpy(bytes, &e->ip, sizeof e->ip);
	memcpy(bytes + sizeof e->ip, &e->port, sizeof e->port);
	return hash64(bytes, sizeof bytes, key);
}

const struct endpoint *
choice_pick(const struct service_port *p, const struct choice_ask *ask)
{
	const struct endpoint *best = NULL;
	bool best_ill = false;
	uint64_t most = 0;

	for (unsigned i = 0; i < p->n_endpoints; i++) {
		const struct endpoint *e = &p->endpoints[i];
		uint64_t w = egress_client_udp_choice_weight(e, ask->key);
		bool ill;

		if (e->via != VIA_TUNNEL || was_tried(ask, e))
			continue;
		ill = is_ill(ask, e);
		if (best != NULL && (ill > best_ill || (ill == best_ill && w <= most)))
			continue;
		best = e;
		best_ill = ill;
		most = w;
	}
	return best;
}

void
choice_failed(struct choice_ill *ill, const struct choice_place *place, uint64_t now_ms)
{
	unsigned at = ill->next;

	for (unsigned i = 0; i < CHOICE_ILL; i++)
		if (ill->places[i].port == place->port &&
			memcmp(&ill->places[i].ip, &place->ip, sizeof place->ip) == 0)
			at = i;
	if (at == ill->next)
		ill->next = (ill->next + 1) % CHOICE_ILL;
	ill->places[at] = *place;
	ill->until_ms[at] = now_ms + CHOICE_ILL_MS;
}
