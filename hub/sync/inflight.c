#include "hub/sync/inflight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/envelope.h"

enum { SLOTS_FIRST = 4 };

void
inflight_init(struct inflight *f)
{
	char id[FANOUT_ID_LEN + 1];

	*f = (struct inflight){0};
	envelope_new_id(id);
	memcpy(f->prefix, id, 24); /* including the last hyphen */
}

static unsigned
free_slot(struct inflight *f)
{
	unsigned slot;

	if (f->n == f->n_slots) {
		unsigned n = f->n_slots > 0 ? f->n_slots * 2 : SLOTS_FIRST;

		f->slot = xrealloc(f->slot, n * sizeof *f->slot);
		memset(f->slot + f->n_slots, 0, (n - f->n_slots) * sizeof *f->slot);
		f->n_slots = n;
	}
	for (slot = f->seq % f->n_slots; f->slot[slot].item != NULL;)
		slot = (slot + 1) % f->n_slots;
	return slot;
}

void
inflight_begin(struct inflight *f, const struct flight *flight, char id[FANOUT_ID_LEN + 1])
{
	unsigned slot = free_slot(f);

	f->slot[slot] = *flight;
	f->slot[slot].seq = ++f->seq;
	f->n++;
	f->bytes += flight->len;
	snprintf(id, FANOUT_ID_LEN + 1, "%.24s%08x%04x", f->prefix, f->seq, slot % INFLIGHT_MOST);
}

struct flight *
inflight_find(struct inflight *f, const char *parent)
{
	unsigned seq, slot;
	int used = 0;

	if (strlen(parent) != FANOUT_ID_LEN || strncmp(parent, f->prefix, 24) != 0 ||
		sscanf(parent + 24, "%8x%4x%n", &seq, &slot, &used) != 2 || used != 12 ||
		slot >= f->n_slots || f->slot[slot].item == NULL || f->slot[slot].seq != seq)
		return NULL;
	return &f->slot[slot];
}

const struct flight *
inflight_late(const struct inflight *f, uint64_t now_ms, uint64_t most_ms)
{
	for (unsigned i = 0; i < f->n_slots; i++)
		if (f->slot[i].item != NULL && f->slot[i].sent_ms + most_ms <= now_ms)
			return &f->slot[i];
	return NULL;
}

void
inflight_end(struct inflight *f, struct flight *flight)
{
	flight->item = NULL;
	f->n--;
	f->bytes -= flight->len;
}

struct fanout_item *
inflight_take(struct inflight *f)
{
	for (unsigned i = 0; i < f->n_slots; i++) {
		struct fanout_item *item = f->slot[i].item;

		if (item == NULL)
			continue;
		inflight_end(f, &f->slot[i]);
		return item;
	}
	return NULL;
}

void
inflight_rest(struct inflight *f)
{
	if (f->n > 0)
		return;
	free(take_ptr(&f->slot));
	f->n_slots = 0;
}
