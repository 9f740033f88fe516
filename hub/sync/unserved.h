/*
 * The services that a node reports as not served, or not completely (doc/protocol.md,
 * node/unserved). Part of hub/sync/node_session; pure.
 *
 *	rc = unserved_read(&u, content, len, &err);	// each message tells all of them
 */
#ifndef EDGEWAY_HUB_SYNC_UNSERVED_H
#define EDGEWAY_HUB_SYNC_UNSERVED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/core/err.h"

enum { UNSERVED_KEYS_MAX = 100 }; /* further names are ignored */

struct unserved {
	struct unserved_keys {
		char **list; /* "namespace/name"; NULL: none */
		size_t n;
		/* refused: it serves them, except for an endpoint at an address that it does not
		 * dial */
	} keys, refused, ports; /* ports: those for callers from outside are not served */
};

/* Replaces the previous report. Returns -errno and the reason: then there are none. */
int unserved_read(struct unserved *u, const char *text, size_t len, struct err *err);
bool unserved_has(const struct unserved *u, const char *key);
void unserved_fini(struct unserved *u);

#endif
