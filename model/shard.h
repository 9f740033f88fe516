/*
 * A small immutable hash table, atomically reference-counted: a snapshot's index consists of many
 * of them, so that an update copies only the shards that it changes. Entries are (32-bit key,
 * pointer); several may have the same key. Internal to model/snapshot.c.
 *
 *	struct shard_edit e;
 *	shard_edit_open(&e, old);	// old may be NULL: empty
 *	shard_edit_add(&e, key, value);
 *	struct shard *next = shard_edit_close(&e);	// NULL when nothing is left
 */
#ifndef EDGEWAY_MODEL_SHARD_H
#define EDGEWAY_MODEL_SHARD_H

#include <stdatomic.h>

#include "base/core/util.h"

struct shard {
	_Atomic unsigned refs;
	uint32_t n, mask; /* entries; slots - 1 */
	const void **values; /* dense */
	uint32_t *keys; /* dense, beside values */
	uint32_t *slots; /* index into the dense lists plus 1; 0: empty */
};

void shard_ref(struct shard *s);
/* True when this was the last reference; the caller then releases the values and calls shard_free.
 */
bool shard_unref(struct shard *s);
void shard_free(struct shard *s);

/* Walks the entries with this key: *at starts at UINT32_MAX; false after the last. */
bool shard_next(const struct shard *s, uint32_t key, uint32_t *at, const void **value);

struct shard_edit {
	uint32_t n, room;
	const void **values;
	uint32_t *keys;
};

void shard_edit_open(struct shard_edit *e, const struct shard *old);
void shard_edit_add(struct shard_edit *e, uint32_t key, const void *value);
void shard_edit_remove(struct shard_edit *e, uint32_t i); /* the last entry takes its place */
struct shard *shard_edit_close(struct shard_edit *e);

#endif
