/*
 * What the files of hub/identity/approvals share: approvals.c is the spine (what the API server
 * says and is told), approvals_ask.c answers nodes and operators from what is known. No other file
 * includes it.
 */
#ifndef EDGEWAY_HUB_IDENTITY_APPROVALS_PRIVATE_H
#define EDGEWAY_HUB_IDENTITY_APPROVALS_PRIVATE_H

#include "hub/identity/approvals.h"

/* A request that is known. */
struct held {
	struct held *next;
	struct csr csr;
	uint64_t source; /* of the address that asked (approvals_source) */
	bool asked; /* by us, and not seen at the server yet */
	bool sent; /* it has been written */
	bool given_up; /* another got its place: it is to fail, unless somebody decides before */
	/* loop's clock: when its node asked here last; of others when it was seen first */
	uint64_t asked_ms;
	char *cert; /* signed, not written yet; NULL */
	uint64_t due_ms; /* loop's clock: when it is our turn to sign; 0: not drawn */
	struct kube_wait wait; /* of writing its status */
	/* Version whose status was written: wait for the next. */
	char tried[FOLLOW_VERSION_MAX + 1];
	unsigned round;
};

/* One that the API server found wrong: whoever asks again is told so. */
struct refused {
	char name[CSR_NAME_MAX + 1];
	char why[300];
	uint64_t until_ms; /* loop's clock */
};

enum { APPROVALS_REFUSED_MAX = 8, APPROVALS_REFUSED_MS = 120 * 1000 };

enum step { STEP_NONE, STEP_CREATE, STEP_CLAIM, STEP_WRITE };

/* The requests of one signer. */
struct approvals_list {
	struct approvals *approvals;
	struct follow *follow;
	bool replaces; /* of CSR_SIGNER_REPLACEMENT */
	bool listed;
};

struct approvals {
	struct approvals_config config;
	struct approvals_list lists[2]; /* by csr.replaces */
	struct held *held;
	size_t n_held;
	struct timer *timer; /* the next step */
	enum step step; /* under way, with the request `at` */
	char at[CSR_NAME_MAX + 1];
	struct https_request *request;
	struct share_claim *claim;
	char version[FOLLOW_VERSION_MAX + 1]; /* STEP_WRITE: of the request then */
	bool gives; /* STEP_WRITE: a certificate, else a refusal */
	struct kube_wait wait;
	uint64_t issued, failed, denied, expired;
	char problem[400]; /* of the last step, "" */
	uint64_t problem_ms; /* loop's clock: when that was */
	bool overflow_said;
	struct refused refused[APPROVALS_REFUSED_MAX]; /* the last ones, in turn */
	size_t next_refused;
};

/* Is it to fail, so that another has its place? */
static inline bool
approvals_yields(const struct held *h)
{
	return h->given_up && h->csr.state == CSR_PENDING;
}

/* Room for one more of this address, at the cost of others if need be. NULL: there is; else why
 * not. */
const char *approvals_make_room(struct approvals *a, const char *host);
/* Another is to have the place of one that waits: *h may be gone afterwards. */
void approvals_give_up(struct approvals *a, struct held *h);
/* The same for all addresses of one asker: whoever has an IPv6 address has the whole /64. What is
 * no address is one of its own. */
uint64_t approvals_source(const char *address);
/* A new request to be known, empty. */
struct held *approvals_add(struct approvals *a);
/* Is there another request for its node that waits? */
bool approvals_rivals(const struct approvals *a, const struct csr *csr);
/* Why it must not be signed for whose the name is: on the heap; NULL: it may. */
char *approvals_objection(const struct approvals *a, const struct csr *csr);
/* Why the requests cannot be read at the moment, "". */
const char *approvals_unread(const struct approvals *a);

#endif
