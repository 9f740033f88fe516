/*
 * The small values of the database (notes and kept values), in memory too: where the file is lost
 * while the agent runs, the services come again from the hub, but these do not (the revoked
 * certificates of hubs, the original of resolv.conf), and are written into the new file from here.
 * Used by meta/state/writer's thread only.
 *
 *	store_values_read(&values, store);		// once it is open
 *	store_values_take(&values, &op);		// after each commit
 *	store_commit(store, &values.all, err);		// into a new file
 *	store_values_fini(&values);
 */
#ifndef EDGEWAY_META_STATE_STORE_VALUES_H
#define EDGEWAY_META_STATE_STORE_VALUES_H

#include "meta/state/store.h"

struct store_values {
	struct store_batch all; /* STORE_NOTE and STORE_KEEP, whose strings it owns */
};

void store_values_read(struct store_values *v, struct store *store);
/* Copies a note or a kept value, ignores other operations. STORE_SYNCED is not taken: of a new file
 * it would not be true. */
void store_values_take(struct store_values *v, const struct store_op *op);
/* The kept value of this key is gone. */
void store_values_drop(struct store_values *v, const char *key);
void store_values_fini(struct store_values *v);

#endif
