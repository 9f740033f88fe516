#include "model/shard.h"

#include <string.h>

void
shard_ref(struct shard *s)
{
	if (s != NULL)
		atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

bool
shard_unref(struct shard *s)
{
	return s != NULL && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1;
}

void
shard_free(struct shard *s)
{
	free(s);
}

bool
shard_next(const struct shard *s, uint32_t key, uint32_t *at, const void **value)
{
	uint32_t i;

	if (s == NULL)
		return false;
	i = *at == UINT32_MAX ? key & s->mask : (*at + 1) & s->mask;
	for (; s->slots[i] != 0; i = (i + 1) & s->mask) {
		uint32_t dense = s->slots[i] - 1;

		if (s->keys[dense] != key)
			continue;
		*at = i;
		*value = s->values[dense];
		return true;
	}
	return false;
}

void
shard_edit_open(struct shard_edit *e, const struct shard *old)
{
	e->n = old != NULL ? old->n : 0;
	e->room = e->n + 8;
	e->values = xmalloc(e->room * sizeof *e->values);
	e->keys = xmalloc(e->room * sizeof *e->keys);
	if (old == NULL)
		return;
	memcpy(e->values, old->values, e->n * sizeof *e->values);
	memcpy(e->keys, old->keys, e->n * sizeof *e->keys);
}

void
shard_edit_add(struct shard_edit *e, uint32_t key, const void *value)
{
	if (e->n == e->room) {
		e->room *= 2;
		e->values = xrealloc(e->values, e->room * sizeof *e->values);
		e->keys = xrealloc(e->keys, e->room * sizeof *e->keys);
	}
	e->values[e->n] = value;
	e->keys[e->n++] = key;
}

void
shard_edit_remove(struct shard_edit *e, uint32_t i)
{
	e->n--;
	e->values[i] = e->values[e->n];
	e->keys[i] = e->keys[e->n];
}

static struct shard *
lay_out(const struct shard_edit *e)
{
	uint32_t n_slots = 4;
	struct shard *s;

	while (n_slots < e->n + e->n / 2)
		n_slots *= 2;
	s = xcalloc(1,
		sizeof *s + e->n * (sizeof *s->values + sizeof *s->keys) +
			n_slots * sizeof *s->slots);
	atomic_init(&s->refs, 1);
	s->n = e->n;
	s->mask = n_slots - 1;
	s->values = (void *)(s + 1);
	s->keys = (void *)(s->values + e->n);
	s->slots = s->keys + e->n;
	memcpy(s->values, e->values, e->n * sizeof *s->values);
	memcpy(s->keys, e->keys, e->n * sizeof *s->keys);
	for (uint32_t k = 0; k < e->n; k++) {
		uint32_t i = s->keys[k] & s->mask;

		while (s->slots[i] != 0)
			i = (i + 1) & s->mask;
		s->slots[i] = k + 1;
	}
	return s;
}

struct shard *
shard_edit_close(struct shard_edit *e)
{
	struct shard *s = e->n > 0 ? lay_out(e) : NULL;

	free(e->values);
	free(e->keys);
	return s;
}
