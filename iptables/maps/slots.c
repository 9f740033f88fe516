#include "iptables/maps/slots.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/core/hash.h"
#include "model/check.h"

enum { SLOTS_EACH = 8 };

/* A row of one slot needs no hash: it is always drawn "by flow". */
static const uint16_t by_flow[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, SLOTS_EXACT,
	256, 512, SLOTS_SLOTS_MAX, 0};
static const uint16_t by_client[] = {16, 32, 64, 128, 256, 512, SLOTS_SLOTS_MAX, 0};

const uint16_t *
slots_lengths(bool client)
{
	return client ? by_client : by_flow;
}

bool
slots_direct(const struct endpoint *e, bool v6, struct slots_target *t)
{
	t->port = e->port;
	return endpoint_direct(e, v6, &t->ip);
}

static bool
same_target(const struct slots_target *a, const struct slots_target *b)
{
	return a->port == b->port && ip_same(&a->ip, &b->ip);
}

static bool
slots_holds(const struct slots_target *list, size_t n, const struct slots_target *t)
{
	for (size_t i = 0; i < n; i++)
		if (same_target(&list[i], t))
			return true;
	return false;
}

/* The endpoints of one tier, the live ones or all, without duplicates. */
static size_t
slots_pick(struct slots_target *to, const struct service_port *p, uint8_t tier,
	const struct slots_ask *ask, bool all)
{
	size_t n = 0;

	for (unsigned i = 0; i < service_port_most(p, ask->local) && n < SLOTS_SLOTS_MAX; i++) {
		const struct endpoint *e = &p->endpoints[i];
		struct slots_target t;

		if (e->tier != tier || (ask->local && (e->flags & ENDPOINT_LOCAL) == 0) ||
			!slots_direct(e, ask->v6, &t))
			continue;
		if ((all || ask->alive == NULL || ask->alive(ask->arg, &t)) &&
			!slots_holds(to, n, &t))
			to[n++] = t;
	}
	return n;
}

static size_t
pick_best(struct slots_target *to, const struct service_port *p, const struct slots_ask *ask)
{
	size_t n = 0;

	for (uint8_t tier = TIER_NODE; n == 0 && tier < TIER_TUNNEL; tier++)
		n = slots_pick(to, p, tier, ask, false);
	for (uint8_t tier = TIER_NODE; n == 0 && tier < TIER_TUNNEL; tier++)
		n = slots_pick(to, p, tier, ask, true);
	return n;
}

static uint16_t
length_for(size_t n, bool client)
{
	const uint16_t *length = slots_lengths(client);
	size_t want = client || n > SLOTS_EXACT ? n * SLOTS_EACH : n;

	while (*length < want && *length < SLOTS_SLOTS_MAX)
		length++;
	return *length;
}

/* The endpoint with the highest hash that has room left. */
static size_t
slots_winner(uint16_t slot, const struct slots_target *list, size_t n, const uint16_t *room)
{
	uint64_t best = 0;
	size_t at = n;

	for (size_t i = 0; i < n; i++) {
		const uint32_t key[2] = {
			ip_to_v4(&list[i].ip), (uint32_t)list[i].port << 16 | slot};
		uint64_t h = hash64(key, sizeof key,
			key[0] != 0 ? 0 : hash64(&list[i].ip, sizeof list[i].ip, 0));

		if (room[i] > 0 && (at == n || h > best)) {
			best = h;
			at = i;
		}
	}
	return at;
}

static void
fill_by_client(struct slots *plan, const struct slots_target *list, size_t n)
{
	uint16_t *room = xcalloc(n, sizeof *room);
	size_t share = (plan->n * 5 + 4 * n - 1) / (4 * n);

	for (size_t i = 0; i < n; i++)
		room[i] = (uint16_t)share;
	for (uint16_t slot = 0; slot < plan->n; slot++) {
		size_t i = slots_winner(slot, list, n, room);

		room[i]--;
		plan->slots[slot] = list[i];
	}
	free(room);
}

void
slots_make(struct slots *plan, const struct service_port *p, const struct slots_ask *ask)
{
	size_t most = MIN((size_t)service_port_most(p, ask->local), (size_t)SLOTS_SLOTS_MAX), n;
	struct slots_target *list = xcalloc(most + 1, sizeof *list);

	*plan = (struct slots){0};
	n = pick_best(list, p, ask);
	if (n > 0) {
		plan->by_client = ask->by_client && n > 1;
		plan->n = length_for(n, plan->by_client);
		plan->slots = xcalloc(plan->n, sizeof *plan->slots);
		if (plan->by_client)
			fill_by_client(plan, list, n);
		else
			for (size_t i = 0; i < plan->n; i++)
				plan->slots[i] = list[i % n];
	}
	free(list);
}

/* --- callers -------------------------------------------------------------------------------- */

static int
slots_compare_callers(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct in6_addr));
}

void
slots_restrict(struct slots *plan, const struct service *s, const struct service_port *p,
	const struct local_callers *callers, bool v6)
{
	size_t n = local_callers_count(callers);
	struct allow_caller who = {.on_node = true, .node = local_callers_node(callers)};

	if (!s->restricted)
		return;
	plan->restricted = true;
	plan->host = service_permits_all(s, p, &who);
	plan->callers = xcalloc(n + 1, sizeof *plan->callers);
	for (size_t i = 0; i < n; i++) {
		const struct local_pod pod = local_callers_at(callers, i);
		struct in6_addr ip;
		const char *text = (strchr(pod.ip, ':') != NULL) == v6 ? pod.ip : pod.other_ip;

		if (!ip_parse(text, &ip) || IN6_IS_ADDR_V4MAPPED(&ip) == v6)
			continue;
		local_callers_find(callers, &ip, &who);
		if (service_permits_all(s, p, &who))
			plan->callers[plan->n_callers++] = ip;
	}
	qsort(plan->callers, plan->n_callers, sizeof *plan->callers, slots_compare_callers);
}

bool
slots_admits(const struct slots *plan, const struct in6_addr *caller)
{
	return !plan->restricted ||
		(plan->n_callers > 0 &&
			bsearch(caller, plan->callers, plan->n_callers, sizeof *plan->callers,
				slots_compare_callers) != NULL);
}

bool
slots_excludes(const struct slots *before, const struct slots *after)
{
	if (!after->restricted)
		return false;
	if (!before->restricted || (before->host && !after->host))
		return true;
	for (uint32_t i = 0; i < before->n_callers; i++)
		if (!slots_admits(after, &before->callers[i]))
			return true;
	return false;
}

static bool
slots_same_callers(const struct slots *a, const struct slots *b)
{
	return a->restricted == b->restricted && a->host == b->host &&
		a->n_callers == b->n_callers &&
		(a->n_callers == 0 ||
			memcmp(a->callers, b->callers, a->n_callers * sizeof *a->callers) == 0);
}

void
slots_fini(struct slots *plan)
{
	free(plan->callers);
	free(plan->slots);
	*plan = (struct slots){0};
}

void
slots_single(struct slots *plan, const struct slots_target *t)
{
	*plan = (struct slots){.n = 1};
	plan->slots = xmemdup(t, sizeof *t);
}

bool
slots_same(const struct slots *a, const struct slots *b)
{
	if (a->n != b->n || a->by_client != b->by_client || a->external != b->external ||
		a->kept != b->kept || !slots_same_callers(a, b))
		return false;
	for (uint16_t i = 0; i < a->n; i++)
		if (!same_target(&a->slots[i], &b->slots[i]))
			return false;
	return true;
}

bool
slots_has(const struct slots *plan, const struct slots_target *t)
{
	return slots_holds(plan->slots, plan->n, t);
}
