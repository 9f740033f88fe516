/*
 * The claims of names and of uses of tokens that wait for the API server, and the ledger whose roll
 * and joins they are entered into. Part of hub/identity/share.
 *
 *	claim = share_claims_add(&all, &wish, claimed, arg);
 *	share_claims_enter(&all, ledger);	// it is about to be written
 *	share_claims_answer(&all, ledger, rc, why);	// it was
 */
#ifndef EDGEWAY_HUB_IDENTITY_SHARE_CLAIMS_H
#define EDGEWAY_HUB_IDENTITY_SHARE_CLAIMS_H

#include "hub/identity/share.h"

struct share_claims {
	struct share_claim *first; /* the newest one; NULL: none */
};

/* As share_claim. */
struct share_claim *share_claims_add(struct share_claims *all, const struct share_wish *wish,
	share_claimed_fn *claimed, void *arg);
/* As share_unclaim. */
void share_claims_remove(struct share_claims *all, struct share_claim **claim);
/* As share_claim_pends. */
bool share_claims_pend(const struct share_claims *all, const char *node);
/* Into the write that begins; those whose name or token is gone are answered. */
void share_claims_enter(struct share_claims *all, struct ledger *ledger);
/* What became of the write. -ESTALE: it begins again, and nobody is answered. */
void share_claims_answer(struct share_claims *all, struct ledger *ledger, int rc, const char *why);
/* Without a word. */
void share_claims_fini(struct share_claims *all);

#endif
