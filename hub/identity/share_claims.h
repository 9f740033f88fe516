/*
 * The claims of names and of uses of tokens that wait for the API server, entered meanwhile into
 * the certificate registry and its joins. Part of hub/identity/share.
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
/* Enters the claims into the write that begins; claims whose name or token is gone get their
 * answer. */
void share_claims_enter(struct share_claims *all, struct ledger *ledger);
/* The result of the write. -ESTALE: it begins again, and no claim gets an answer. */
void share_claims_answer(struct share_claims *all, struct ledger *ledger, int rc, const char *why);
/* Frees all claims without calling back. */
void share_claims_fini(struct share_claims *all);

#endif
