/*
 * The claims of names that wait for the API server, and the roll that they are entered into. Part of hub/share.
 *
 *	claim = share_claims_add(&all, node, &entry, true, claimed, arg);
 *	share_claims_enter(&all, roll);		// the roll is about to be written
 *	share_claims_answer(&all, roll, rc, why);	// it was
 */
#ifndef EDGEWAY_HUB_SHARE_CLAIMS_H
#define EDGEWAY_HUB_SHARE_CLAIMS_H

#include "hub/share.h"

struct share_claims {
	struct share_claim *first; /* the newest one; NULL: none */
};

/* As share_claim. */
struct share_claim *share_claims_add(struct share_claims *all, const char *node,
	const struct roll_entry *entry, bool exclusive, share_claimed_fn *claimed, void *arg);
/* As share_unclaim. */
void share_claims_remove(struct share_claims *all, struct share_claim **claim);
/* Into the write that begins; those whose name is gone are answered. */
void share_claims_enter(struct share_claims *all, struct roll *roll);
/* What became of the write. -ESTALE: it begins again, and nobody is answered. */
void share_claims_answer(struct share_claims *all, struct roll *roll, int rc, const char *why);
/* Without a word. */
void share_claims_fini(struct share_claims *all);

#endif
