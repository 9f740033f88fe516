/*
 * State shared by the files of hub/identity/approvals: approvals.c follows the API server and
 * writes to it, approvals_ask.c answers nodes and operators from that state. No other file includes
 * it.
 */
#ifndef EDGEWAY_HUB_IDENTITY_APPROVALS_PRIVATE_H
#define EDGEWAY_HUB_IDENTITY_APPROVALS_PRIVATE_H

#include "hub/identity/approvals.h"

/* A known request. */
struct held {
	struct held *next;
	struct csr csr;
	uint64_t source; /* of the address that asked (approvals_source) */
	bool asked; /* created by this hub, and not seen at the server yet */
	bool sent; /* it has been written */
	bool given_up; /* lost its place to another; it will fail, unless somebody decides first */
	/* loop's clock: when its node last asked here; for others' requests, when first seen */
	uint64_t asked_ms;
	char *cert; /* signed, not written yet; NULL */
	bool recorded; /* the certificate is recorded: nobody gets it before */
	uint64_t due_ms; /* loop's clock: when this hub's turn to sign comes; 0: not drawn */
	struct kube_wait wait; /* retry state of writing its status */
	/* Version whose status was written: wait for the next one. */
	char tried[FOLLOW_VERSION_MAX + 1];
	unsigned round;
};

/* A request that the API server rejected; nodes that ask again get the same error. */
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
	struct approvals_list lists[2]; /* indexed by csr.replaces */
	struct held *held;
	size_t n_held;
	struct timer *timer; /* timer for the next step */
	enum step step; /* in progress, for the request `at` */
	char at[CSR_NAME_MAX + 1];
	struct https_request *request;
	struct share_claim *claim;
	char version[FOLLOW_VERSION_MAX + 1]; /* STEP_WRITE: the request's version at that time */
	bool gives; /* STEP_WRITE: writes a certificate, else a refusal */
	struct kube_wait wait;
	uint64_t issued, failed, denied, expired;
	char problem[400]; /* of the last step, "" */
	uint64_t problem_ms; /* loop's clock: when that was */
	bool overflow_said;
	struct refused refused[APPROVALS_REFUSED_MAX]; /* the last ones, in turn */
	size_t next_refused;
};

/* Returns true if the request will fail because another request gets its place. */
static inline bool
approvals_yields(const struct held *h)
{
	return h->given_up && h->csr.state == CSR_PENDING;
}

/* Returns true if the request's certificate may be written. */
static inline bool
approvals_gives(const struct held *h)
{
	return h->cert != NULL && h->recorded;
}

/* Makes room for one more request of this address, dropping others if necessary. Returns NULL if
 * there is room; otherwise why not. */
const char *approvals_make_room(struct approvals *a, const char *host);
/* Marks a waiting request to give its place to another: *h may be freed by this call. */
void approvals_give_up(struct approvals *a, struct held *h);
/* Key that is equal for all addresses of one client: whoever has an IPv6 address has the whole /64.
 * A text that is not an address gets a key of its own. */
uint64_t approvals_source(const char *address);
/* Adds a new, empty request to the list. */
struct held *approvals_add(struct approvals *a);
/* Returns true if another request for the same node waits. */
bool approvals_rivals(const struct approvals *a, const struct csr *csr);
/* Why the request must not be signed, considering who holds the name: on the heap; NULL: it may be
 * signed. */
char *approvals_objection(const struct approvals *a, const struct csr *csr);
/* Why the requests cannot be read now; "": they can. */
const char *approvals_unread(const struct approvals *a);

#endif
