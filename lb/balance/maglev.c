#include "lb/balance/maglev.h"

enum { NOBODY = UINT16_MAX };

/* The sequence of slots that a node prefers. */
struct walk {
	uint64_t hash;
	uint16_t node, at, step;
};

static int
by_hash(const void *a, const void *b)
{
	const struct walk *one = a, *two = b;

	return (one->hash > two->hash) - (one->hash < two->hash);
}

static struct walk *
walks_of(const uint64_t *hashes, size_t n)
{
	struct walk *walks = xcalloc(n, sizeof *walks);

	for (size_t i = 0; i < n; i++) {
		walks[i].hash = hashes[i];
		walks[i].node = (uint16_t)i;
		walks[i].at = (uint16_t)(maglev_mix(hashes[i]) % MAGLEV_SLOTS);
		walks[i].step = (uint16_t)(1 + maglev_mix(~hashes[i]) % (MAGLEV_SLOTS - 1));
	}
	/* The order of choosing must not depend on the order in which the nodes were given. */
	qsort(walks, n, sizeof *walks, by_hash);
	return walks;
}

/* The next free slot of the sequence. There is one as long as the table is not full. */
static uint16_t
next_free(struct walk *w, const uint16_t *table)
{
	uint16_t slot;

	do {
		slot = w->at;
		w->at = (uint16_t)((w->at + w->step) % MAGLEV_SLOTS);
	} while (table[slot] != NOBODY);
	return slot;
}

void
maglev_fill(uint16_t table[MAGLEV_SLOTS], const uint64_t *hashes, size_t n)
{
	auto_free struct walk *walks = walks_of(hashes, n);

	for (size_t i = 0; i < MAGLEV_SLOTS; i++)
		table[i] = NOBODY;
	for (size_t i = 0; i < MAGLEV_SLOTS; i++) {
		struct walk *w = &walks[i % n];

		table[next_free(w, table)] = w->node;
	}
}
