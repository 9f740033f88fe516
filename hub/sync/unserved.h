/*
 * The services that a node says it cannot serve, or not wholly (doc/protocol.md, node/unserved).
 * Part of hub/sync/node_session; pure.
 *
 *	rc = unserved_read(&u, content, len, &err);	// each message tells all of them
 */
#ifndef EDGEWAY_HUB_SYNC_UNSERVED_H
#define EDGEWAY_HUB_SYNC_UNSERVED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/core/err.h"

enum { UNSERVED_KEYS_MAX = 100 }; /* what is named beyond them is passed over */

struct unserved {
	struct unserved_keys {
		char **list; /* "namespace/name"; NULL: none */
		size_t n;
		/* refused: it serves them, but for an endpoint at an address that it does not
		 * dial */
	} keys, refused;
};

/* In place of what it said before. -errno and the reason: then there are none. */
int unserved_read(struct unserved *u, const char *text, size_t len, struct err *err);
bool unserved_has(const struct unserved *u, const char *key);
void unserved_fini(struct unserved *u);

#endif
