#include "iptables/maps/difference.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>
#include <string.h>

#include "iptables/maps/rules.h"
#include "iptables/table/elements.h"

/* Keys and data as the kernel compares them: parts of four bytes, an IPv6 address of sixteen. */
struct bytes {
	uint8_t at[2 * sizeof(struct in6_addr) + 3 * sizeof(uint32_t)];
	uint16_t n;
};

static void
bytes_add(struct bytes *b, const void *data, size_t len)
{
	memcpy(b->at + b->n, data, len);
	b->n = (uint16_t)(b->n + (len + 3) / 4 * 4);
}

static void
bytes_add_ip(struct bytes *b, const struct in6_addr *ip)
{
	size_t skip = IN6_IS_ADDR_V4MAPPED(ip) ? sizeof *ip - sizeof(struct in_addr) : 0;

	bytes_add(b, ip->s6_addr + skip, sizeof *ip - skip);
}

static void
bytes_add_port(struct bytes *b, uint16_t port)
{
	const uint16_t be = htons(port);

	bytes_add(b, &be, sizeof be);
}

static void
bytes_add_service(struct bytes *b, const struct key *k)
{
	const uint8_t proto = (uint8_t)k->proto;

	bytes_add_ip(b, &k->ip);
	bytes_add(b, &proto, sizeof proto);
	bytes_add_port(b, k->port);
}

static bool
same_chain(const struct difference *d)
{
	return d->was && d->is && d->before.n == d->after.n &&
		d->before.by_client == d->after.by_client;
}

/* One map each: unrestricted ports; restricted ports that processes of the node may use; restricted
 * ports that some pods may use; ports that are called from outside, and the sources of those that
 * the kernel carries. */
enum { MAP_SERVICES, MAP_HOSTS, MAP_EXTERNAL, MAP_SOURCES };

static bool
is_in(const struct slots *plan, int map)
{
	switch (map) {
	case MAP_EXTERNAL:
		return plan->external;
	case MAP_SOURCES:
		return plan->external && plan->n > 0;
	case MAP_HOSTS:
		return plan->restricted && plan->host;
	default:
		return !plan->restricted && !plan->external;
	}
}

static const char *
chain_of(char to[RULES_CHAIN_MAX], const struct slots *plan, int map)
{
	if (map == MAP_SOURCES)
		return plan->kept ? RULES_KEPT : RULES_MASQUERADED;
	return plan->n == 0 ? RULES_PROXY : rules_chain(to, plan->by_client, plan->n);
}

static bool
same_verdict(const struct difference *d, int map)
{
	return map == MAP_SOURCES ? d->before.kept == d->after.kept : same_chain(d);
}

static void
put_verdict(struct elements *e, const struct difference *d, bool del, int map)
{
	struct bytes key = {.n = 0};
	char chain[RULES_CHAIN_MAX];
	struct element one = {.key = key.at};
	bool was = d->was && is_in(&d->before, map), is = d->is && is_in(&d->after, map);

	if (d->key.proto == 0 || (was && is && same_verdict(d, map)) || !(del ? was : is))
		return;
	bytes_add_service(&key, &d->key);
	one.key_len = key.n;
	if (!del)
		one.chain = chain_of(chain, &d->after, map);
	elements_add(e, &one);
}

static void
put_external(struct elements *e, const struct difference *d, bool del)
{
	put_verdict(e, d, del, MAP_EXTERNAL);
}

static void
put_source(struct elements *e, const struct difference *d, bool del)
{
	put_verdict(e, d, del, MAP_SOURCES);
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
		struct bytes key = {.n = 0};
		struct element one = {.key = key.at};

		if (same_chain(d) && other_there && other->restricted &&
			slots_admits(other, &plan->callers[i]))
			continue;
		bytes_add_ip(&key, &plan->callers[i]);
		bytes_add_service(&key, &d->key);
		one.key_len = key.n;
		if (!del)
			one.chain = rules_chain(chain, plan->by_client, plan->n);
		elements_add(e, &one);
	}
}

static bool
same_slot(const struct difference *d, uint16_t i)
{
	return i < d->before.n && i < d->after.n &&
		d->before.slots[i].port == d->after.slots[i].port &&
		ip_same(&d->before.slots[i].ip, &d->after.slots[i].ip);
}

static void
put_slots(struct elements *e, const struct difference *d, bool del, bool single)
{
	const struct slots *plan = del ? &d->before : &d->after;
	bool other_map = (d->before.n == 1) != (d->after.n == 1);

	if ((plan->n == 1) != single)
		return;
	for (uint16_t i = 0; i < plan->n; i++) {
		struct bytes key = {.n = 0}, data = {.n = 0};
		const uint32_t number = i;
		struct element one = {.key = key.at};

		if (!other_map && same_slot(d, i))
			continue;
		bytes_add_service(&key, &d->key);
		if (!single)
			bytes_add(&key, &number, sizeof number);
		one.key_len = key.n;
		if (!del) {
			bytes_add_ip(&data, &plan->slots[i].ip);
			bytes_add_port(&data, plan->slots[i].port);
			one.data = data.at;
			one.data_len = data.n;
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
	struct bytes key = {.n = 0};

	bytes_add_ip(&key, &d->key.ip);
	if (d->key.proto == 0 && d->was != d->is && (del ? d->was : d->is))
		elements_add(e, &(struct element){.key = key.at, .key_len = key.n});
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
			if (IN6_IS_ADDR_V4MAPPED(&list[i].key.ip) == (b->family == NFPROTO_IPV4))
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
	put_kind(b, RULES_EXTERNAL, put_external, list, n);
	put_kind(b, RULES_SOURCES, put_source, list, n);
	put_kind(b, RULES_SINGLE, put_single, list, n);
	put_kind(b, RULES_ENDPOINTS, put_endpoints, list, n);
}
