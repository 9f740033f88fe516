/*
 * What the files of hub/approvals share: approvals.c is the spine (what the API server says and is told), approvals_ask.c
 * answers nodes and operators from what is known. No other file includes it.
 */
#ifndef EDGEWAY_HUB_APPROVALS_PRIVATE_H
#define EDGEWAY_HUB_APPROVALS_PRIVATE_H

#include "hub/approvals.h"

/* A request that is known. */
struct held {
	struct held *next;
	struct csr csr;
	bool asked; /* by us, and not seen at the server yet */
	bool sent; /* it has been written */
	char *cert; /* signed, not written yet; NULL */
	uint64_t due_ms; /* loop's clock: when it is our turn to sign; 0: not drawn */
	unsigned failures; /* of writing its status */
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

struct approvals {
	struct approvals_config config;
	struct follow *follow;
	struct held *held;
	size_t n_held;
	struct timer *timer; /* the next step */
	enum step step; /* under way, with the request `at` */
	char at[CSR_NAME_MAX + 1];
	struct https_request *request;
	struct share_claim *claim;
	char version[FOLLOW_VERSION_MAX + 1]; /* STEP_WRITE: of the request then */
	bool gives; /* STEP_WRITE: a certificate, else a refusal */
	unsigned failures;
	uint64_t issued, failed, denied;
	char problem[400]; /* of the last step, "" */
	uint64_t problem_ms; /* loop's clock: when that was */
	bool listed, overflow_said;
	struct refused refused[APPROVALS_REFUSED_MAX]; /* the last ones, in turn */
	size_t next_refused;
};

/* A new request to be known, empty. */
struct held *approvals_add(struct approvals *a);
/* Has its node a certificate by now, or another request that waits? */
bool approvals_rivals(const struct approvals *a, const struct csr *csr);

#endif
