/*
 * Builds the first snapshot from the database: reads every service, checks it against its digest,
 * enters its address into the allocator, and builds it. Unusable rows are repaired in one
 * transaction: a damaged row is deleted (the hub sends it again; its name gets the old address
 * back), and an address outside the subnet or held twice is replaced. Called once, before traffic,
 * on loop 0.
 */
#ifndef EDGEWAY_META_STATE_LOAD_H
#define EDGEWAY_META_STATE_LOAD_H

#include "meta/state/ipam.h"
#include "meta/state/store.h"
#include "model/snapshot.h"
#include "model/view.h"

struct load {
	struct store *store;
	struct ipam *ipam;
	const struct self *self;
	uint64_t now_ms;
};

struct load_result {
	const struct snapshot *snapshot; /* owned by the caller */
	bool synced; /* the hub once completed a sync */
	size_t dropped; /* damaged rows */
	size_t moved; /* services with a new address */
	size_t exhausted; /* services without one */
};

/* -EUCLEAN: the file is damaged; *result is empty, but the allocator is not. */
int load_services(const struct load *load, struct load_result *result, struct err *err);

/* Parses a row if it is what was stored under this key; otherwise -EINVAL. */
int load_row(const struct store_row *row, struct view **view);

#endif
