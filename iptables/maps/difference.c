#include "iptables/maps/difference.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>

#include "iptables/maps/rules.h"
#include "iptables/table/elements.h"

static struct rules_key
bytes_of(const struct key *k, uint32_t slot)
{
	return (struct rules_key){.ip = htonl(k->ip),
		.proto = (uint8_t)k->proto,
		.port = htons(k->port),
		.slot = slot};
}

static bool
same_chain(const struct difference *d)
{
	return d->was && d->is && d->before.n == d->after.n &&
		d->before.by_client == d->after.by_client;
}

/* One map each: unrestricted ports; restricted ports that processes of the node may use; restricted
 * ports that some pods may use. */
enum { MAP_SERVICES, MAP_HOSTS };

static bool
is_in(const struct slots *plan, int map)
{
	return map == MAP_SERVICES ? !plan->restricted : plan->restricted && plan->host;
}

static void
put_verdict(struct elements *e, const struct difference *d, bool del, int map)
{
	struct rules_key key = bytes_of(&d->key, 0);
	char chain[RULES_CHAIN_MAX];
	struct element one = {.key = &key, .key_len = RULES_SERVICE_KEY_BYTES};
	bool was = d->was && is_in(&d->before, map), is = d->is && is_in(&d->after, map);

	if (d->key.proto == 0 || (was && is && same_chain(d)) || !(del ? was : is))
		return;
	if (!del)
		one.chain = rules_chain(chain, d->after.by_client, d->after.n);
	elements_add(e, &one);
}

static void
put_service(struct elements *e, const struct difference *d, bool del)
{
	put_verdict(e, d, del, MAP_SERVICES);
}

static void
put_host(struct elements *e, const struct difference *d, bool del)
{
	put_verdict(e, d, del, MAP_HOSTS);
}

static void
put_callers(struct elements *e, const struct difference *d, bool del)
{
	const struct slots *plan = del ? &d->before : &d->after,
			   *other = del ? &d->after : &d->before;
	bool other_there = del ? d->is : d->was;
	char chain[RULES_CHAIN_MAX];

	if (!(del ? d->was : d->is) || !plan->restricted)
		return;
	for (uint32_t i = 0; i < plan->n_callers; i++) {
		struct rules_key service = bytes_of(&d->key, 0);
		struct rules_caller_key key = {.caller = htonl(plan->callers[i]),
			.ip = service.ip,
			.proto = service.proto,
			.port = service.port};
		struct element one = {.key = &key, .key_len = sizeof key};

		if (same_chain(d) && other_there && other->restricted &&
			slots_admits(other, plan->callers[i]))
			continue;
		if (!del)
			one.chain = rules_chain(chain, plan->by_client, plan->n);
		elements_add(e, &one);
	}
}

static bool
same_slot(const struct difference *d, uint16_t i)
{
	return i < d->before.n && i < d->after.n && d->before.slots[i].ip == d->after.slots[i].ip &&
		d->before.slots[i].port == d->after.slots[i].port;
}

static void
put_slots(struct elements *e, const struct difference *d, bool del, bool single)
{
	const struct slots *plan = del ? &d->before : &d->after;
	bool other_map = (d->before.n == 1) != (d->after.n == 1);

	if ((plan->n == 1) != single)
		return;
	for (uint16_t i = 0; i < plan->n; i++) {
		struct rules_key key = bytes_of(&d->key, i);
		struct rules_endpoint data = {
			.ip = htonl(plan->slots[i].ip), .port = htons(plan->slots[i].port)};
		struct element one = {
			.key = &key, .key_len = single ? RULES_SERVICE_KEY_BYTES : sizeof key};

		if (!other_map && same_slot(d, i))
			continue;
		if (!del) {
			one.data = &data;
			one.data_len = sizeof data;
		}
		elements_add(e, &one);
	}
}

static void
put_single(struct elements *e, const struct difference *d, bool del)
{
	put_slots(e, d, del, true);
}

static void
put_endpoints(struct elements *e, const struct difference *d, bool del)
{
	put_slots(e, d, del, false);
}

static void
put_cluster_ip(struct elements *e, const struct difference *d, bool del)
{
	uint32_t ip = htonl(d->key.ip);

	if (d->key.proto == 0 && d->was != d->is && (del ? d->was : d->is))
		elements_add(e, &(struct element){.key = &ip, .key_len = sizeof ip});
}

typedef void put_fn(struct elements *e, const struct difference *d, bool del);

static void
put_kind(struct batch *b, const char *set, put_fn *fn, const struct difference *list, size_t n)
{
	static const uint16_t types[] = {NFT_MSG_DELSETELEM, NFT_MSG_NEWSETELEM};

	for (size_t t = 0; t < ARRAY_LEN(types); t++) {
		struct elements e;

		elements_open(&e, b, types[t], set);
		for (size_t i = 0; i < n; i++)
			fn(&e, &list[i], types[t] == NFT_MSG_DELSETELEM);
		elements_close(&e);
	}
}

void
difference_put(const struct difference *list, size_t n, struct batch *b)
{
	put_kind(b, RULES_CLUSTER_IPS, put_cluster_ip, list, n);
	put_kind(b, RULES_SERVICES, put_service, list, n);
	put_kind(b, RULES_HOSTS, put_host, list, n);
	put_kind(b, RULES_CALLERS, put_callers, list, n);
	put_kind(b, RULES_SINGLE, put_single, list, n);
	put_kind(b, RULES_ENDPOINTS, put_endpoints, list, n);
}
