/*
 * Records which file defines which object, so that an object defined by two files is noticed and
 * both files can be named. The cluster decides which one wins (the file whose name sorts first);
 * this is only the record. Pure; on the hub's loop.
 *
 *	claim = claims_add(c, KUBE_SERVICE, "default", "web", file);
 *	other = claims_other(c, claim);		// NULL, or that of the first by name among the others
 *	claims_drop(c, &claim);
 */
#ifndef EDGEWAY_HUB_MANIFESTS_CLAIMS_H
#define EDGEWAY_HUB_MANIFESTS_CLAIMS_H

#include "model/kube.h"

struct claims;

struct claim {
	struct claim *next; /* for the owner's own list */
	struct claim *next_hash; /* chain of the hash table */
	uint64_t hash;
	enum kube_kind kind;
	char *ns, *name;
	const char *file; /* borrowed from the owner, lives as long as the claim */
	uint32_t round, line; /* for the owner's use */
};

struct claims *claims_new(void);
/* Every claim must have been dropped. */
void claims_free(struct claims **c);
struct claim *claims_add(
	struct claims *c, enum kube_kind kind, const char *ns, const char *name, const char *file);
struct claim *claims_find(const struct claims *c, enum kube_kind kind, const char *ns,
	const char *name, const char *file);
void claims_drop(struct claims *c, struct claim **claim);
/* The same object of another file, the first by name; NULL if there is none. */
const struct claim *claims_other(const struct claims *c, const struct claim *claim);
size_t claims_count(const struct claims *c);

#endif
