/*
 * Joining without a token: a node asks, an operator approves (`kubectl certificate approve`), and
 * the hub signs. The requests are CertificateSigningRequests for the signer edgeway.io/agent or,
 * for a name that holds a certificate of another key, edgeway.io/agent-replacement
 * (hub/identity/csr.h). Every replica follows them, so a node may ask any replica:
 *
 *   approvals_ask ─► POST ─► PENDING ─approve─► APPROVED ─┬─► claimed from the replicas, recorded
 *                               │                         │      └─► PATCH status ─► ISSUED
 *                               └─deny─► DENIED           └─ breaks the signer's rules ─► FAILED
 *
 * Once approved, requests that others created for these signers are signed as well. Anybody may
 * ask, even without credentials, so there are limits: at most APPROVALS_PENDING_MAX of a hub's own
 * requests are undecided, and APPROVALS_ADDRESS_MAX per address (for IPv6: per /64). No request is
 * created for a name that is connected, or that only an operator's token may give away
 * (join_bars_fn). If a request was signed for the very key that asks, the node gets that
 * certificate. The owner of the name is checked again when signing: a request approved for
 * edgeway.io/agent fails if another key has got the name meanwhile, whoever approved it, and from
 * whichever replica: the name is claimed (hub/identity/share.h), while a replacement is recorded
 * first and then told. When no place is free, a request whose node has not asked for
 * APPROVALS_STALE_MS is dropped, else one of the address with the most requests, if it has at least
 * two more than the asking address; the dropped request fails, with this reason. An error of the
 * API server about a request concerns only this request. The cluster deletes decided requests after
 * an hour and undecided ones after a day. On the hub's loop.
 *
 *	approvals_ask(a, "edge-1", "192.0.2.11:40222", csr_pem, &answer);
 */
#ifndef EDGEWAY_HUB_IDENTITY_APPROVALS_H
#define EDGEWAY_HUB_IDENTITY_APPROVALS_H

#include "base/core/metric.h"
#include "hub/identity/csr.h"
#include "hub/identity/share.h"

enum {
	APPROVALS_PENDING_MAX = 256,
	APPROVALS_ADDRESS_MAX = 16,
	APPROVALS_STALE_MS = 10 * 60 * 1000, /* a node asks every minute */
	APPROVALS_HELD_MAX = 4096,
};

struct approvals;

/* Checks whether the name may be given only by an operator's explicit token for it. 0: it is free;
 * -EPERM, -EEXIST: it is not, err says why and what to do; -ENOENT: nothing is known except the
 * name; -EAGAIN: not known yet. */
typedef int join_bars_fn(void *arg, const char *node, struct err *err);

struct approvals_config {
	struct loop *loop;
	struct kube_api *api;
	struct certs *certs;
	struct share *share; /* NULL: no replicas */
	join_bars_fn *bars; /* decides which names cannot be asked for */
	void *bars_arg;
};

enum approval { APPROVAL_WAITS, APPROVAL_GIVEN, APPROVAL_REFUSED };

struct approval_answer {
	enum approval result;
	char name[CSR_NAME_MAX + 1]; /* of the request, "" when there is none */
	char *cert; /* PEM on the heap when it is given, else NULL */
	char why[512]; /* reason of a refusal, with the remedy */
};

struct approvals *approvals_start(const struct approvals_config *config);
void approvals_stop(struct approvals **a);
/* Returns whether the node may have its certificate by now. Creates a request if there is none.
 * address: of the node, with its port. */
void approvals_ask(struct approvals *a, const char *node, const char *address, const char *csr_pem,
	struct approval_answer *answer);
/* {"pending","replacements","problem",
 * "requests":[{"name","node","state","replaces","address","why"}]} */
void approvals_state(const struct approvals *a, struct buf *out);
void approvals_metrics(const struct approvals *a, struct metrics *to);

#endif
