/*
 * XXH64 (libxxhash): the same value on every machine, so digests may be sent to peers. Not for
 * secrets: use a random seed where a peer could choose the keys.
 */
#ifndef EDGEWAY_BASE_CORE_HASH_H
#define EDGEWAY_BASE_CORE_HASH_H

#include "base/core/util.h"

uint64_t hash64(const void *data, size_t len, uint64_t seed);
/* The same for text with ASCII letters folded to lower case. */
uint64_t hash64_nocase(const char *text, size_t len, uint64_t seed);

#endif
