/*
 * The other way of joining: a node without a token asks, an operator approves (`kubectl certificate
 * approve`), and the hub signs. Through CertificateSigningRequests of the signers edgeway.io/agent
 * and, for a name that holds a certificate of another key, edgeway.io/agent-replacement
 * (hub/identity/csr.h), which every replica follows, so that a node may ask at any of them:
 *
 *   approvals_ask ─► POST ─► PENDING ─approve─► APPROVED ─► recorded, told to the replicas ─► PATCH status ─► ISSUED
 *                               └─deny─► DENIED                └─ breaks the signer's rules ─► FAILED
 *
 * Requests that others made for these signers are signed as well, once they are approved. Who knows
 * nothing of us may ask: at most APPROVALS_PENDING_MAX of a hub's own are undecided,
 * APPROVALS_ADDRESS_MAX of one address (of IPv6: of one /64), and a name that is connected, or that
 * only an operator's token may give away (join_bars_fn), is not asked for; one that was signed for
 * the very key that asks is handed out. Whose the name is counts when it is signed, too: what was
 * approved for edgeway.io/agent fails when another key has got the name meanwhile, whoever approved
 * it. Where places are scarce one whose node has not asked for APPROVALS_STALE_MS gives way, else
 * one of the address that has the most, by two or more than the address that asks: it fails, and
 * says so. What the API server finds wrong with a request is this request's fault alone. The
 * cluster forgets decided requests after an hour and undecided ones after a day. On the hub's loop.
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

/* May nobody have the name but by an operator's own word for it (a token that is made for the
 * name)? 0: it is free; -EPERM, -EEXIST: it is not, err says why and what to do; -ENOENT: no more
 * is known of it than the name; -EAGAIN: that is not known yet. */
typedef int join_bars_fn(void *arg, const char *node, struct err *err);

struct approvals_config {
	struct loop *loop;
	struct kube_api *api;
	struct certs *certs;
	struct share *share; /* NULL: no replicas */
	join_bars_fn *bars; /* whose names are not to be asked for */
	void *bars_arg;
};

enum approval { APPROVAL_WAITS, APPROVAL_GIVEN, APPROVAL_REFUSED };

struct approval_answer {
	enum approval result;
	char name[CSR_NAME_MAX + 1]; /* of the request, "" when there is none */
	char *cert; /* PEM on the heap when it is given, else NULL */
	char why[512]; /* of a refusal, with the remedy */
};

struct approvals *approvals_start(const struct approvals_config *config);
void approvals_stop(struct approvals **a);
/* May the node have its certificate by now? Asks for it when nobody did. address: of the node, with
 * its port. */
void approvals_ask(struct approvals *a, const char *node, const char *address, const char *csr_pem,
	struct approval_answer *answer);
/* {"pending","replacements","problem","requests":[{"name","node","state","replaces","address","why"}]} */
void approvals_state(const struct approvals *a, struct buf *out);
void approvals_metrics(const struct approvals *a, struct metrics *to);

#endif
