/*
 * From the database to the first snapshot: reads every service, checks it against its digest,
 * enters its address with the allocator, and builds it. What cannot be used is put right in one
 * transaction: a row that is damaged goes (the hub sends it again; its name gets the old address
 * back), an address outside the subnet or held twice is given anew. Called once, before traffic, on
 * loop 0.
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
	const struct snapshot *snapshot; /* the caller's */
	bool synced; /* the hub once told everything */
	size_t dropped; /* damaged rows */
	size_t moved; /* services with a new address */
	size_t exhausted; /* services without one */
};

/* -EUCLEAN: the file is damaged, *result is empty, the allocator is not. */
int load_services(const struct load *load, struct load_result *result, struct err *err);

/* A row as a view, when it is what was stored under this key; -EINVAL else. */
int load_row(const struct store_row *row, struct view **view);

#endif
