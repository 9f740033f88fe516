/* Index of the counting entries by name and by network: finds the neighbour of a node without
 * checking each neighbour. */
#include <string.h>

#include "base/core/hash.h"
#include "hub/routing/neighbours_private.h"

#define standing_of(entry) container_of(entry, struct accepted_entry, node)

struct network {
	struct in6_addr prefix;
	uint32_t bits;
};

static struct network
network_of(const struct in6_addr *ip, unsigned bits)
{
	struct network w = {.bits = bits};

	memcpy(&w.prefix, ip, bits / 8);
	if (bits % 8 != 0)
		w.prefix.s6_addr[bits / 8] =
			(uint8_t)(ip->s6_addr[bits / 8] & (0xff00u >> bits % 8));
	return w;
}

/* Many sites use the same private networks: the hash includes the site, so a chain has entries of
 * one site. */
static uint64_t
hash_network(const struct network *w, const char *site)
{
	return hash64(w, sizeof *w, neighbours_hash(site));
}

void
neighbours_index_add(struct neighbours *n, struct neighbour *b)
{
	if (b->vicinity == NULL)
		return;
	b->standings = xcalloc(MAX(b->vicinity->n, (size_t)1), sizeof *b->standings);
	for (size_t i = 0; i < b->vicinity->n; i++) {
		const struct reachable_nets_entry *e = &b->vicinity->list[i];
		struct accepted_entry *s = &b->standings[i];

		s->by = b;
		s->entry = e;
		if (b->wrong[i] != NULL)
			continue;
		if (e->node != NULL) {
			table_add(&n->named, &s->node, neighbours_hash(e->node));
		} else {
			const struct network w = network_of(&e->prefix, e->bits);

			table_add(&n->networks, &s->node, hash_network(&w, b->site));
			n->with_bits[e->bits]++;
		}
		s->counts = true;
	}
	b->n_standings = b->vicinity->n;
}

void
neighbours_index_remove(struct neighbours *n, struct neighbour *b)
{
	for (size_t i = 0; i < b->n_standings; i++) {
		struct accepted_entry *s = &b->standings[i];

		if (!s->counts)
			continue;
		table_remove(s->entry->node != NULL ? &n->named : &n->networks, &s->node);
		n->with_bits[s->entry->bits] -= s->entry->node == NULL;
	}
	b->n_standings = 0;
	free(b->standings);
	b->standings = NULL;
}

static const struct neighbour *
by_name(const struct neighbours *n, const char *node)
{
	struct table_node *at = table_first(&n->named, neighbours_hash(node));

	while (at != NULL && strcmp(standing_of(at)->entry->node, node) != 0)
		at = table_next(at);
	return at == NULL ? NULL : standing_of(at)->by;
}

/* Returns a neighbour other than the node itself, which may have announced the network as well. */
static const struct neighbour *
by_network(const struct neighbours *n, const char *node, const char *site, struct network w)
{
	struct table_node *at = table_first(&n->networks, hash_network(&w, site));

	for (; at != NULL; at = table_next(at)) {
		const struct accepted_entry *s = standing_of(at);
		const struct network its = network_of(&s->entry->prefix, s->entry->bits);

		if (memcmp(&its, &w, sizeof its) == 0 && strcmp(s->by->site, site) == 0 &&
			strcmp(s->by->name, node) != 0)
			return s->by;
	}
	return NULL;
}

const struct neighbour *
neighbours_index_find(const struct neighbours *n, const char *node, const struct in6_addr *ip)
{
	const char *site = neighbours_site_of(n, node);
	const struct neighbour *found = by_name(n, node);

	for (unsigned bits = 0; found == NULL && bits < ARRAY_LEN(n->with_bits); bits++) {
		if (n->with_bits[bits] > 0)
			found = by_network(n, node, site, network_of(ip, bits));
	}
	return found;
}
