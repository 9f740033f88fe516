/*
 * Decides who may be a node: the hub's CA and certificate (hub/identity/certs.h), tokens, and what
 * the replicas share (hub/identity/share.h). Owns the hub's TLS context, and makes a new one when
 * the hub's certificate is due for renewal. On the hub's loop.
 *
 * A single hub, or one with a CA and lists of its own, is ready at once. With replicas it is ready
 * once the CA and the other replicas' lists have been read; then it calls `ready`, once.
 *
 *	authority_start(&a, loop, &config, &err);
 *	if (authority_ready(a)) nodes_start(... authority_tls(a) ...);	// or in config.ready
 */
#ifndef EDGEWAY_HUB_IDENTITY_AUTHORITY_H
#define EDGEWAY_HUB_IDENTITY_AUTHORITY_H

#include "hub/identity/approvals.h"
#include "hub/identity/certs.h"
#include "hub/identity/share.h"
#include "hub/identity/tokens.h"

enum { AUTHORITY_CHECK_MS = 10 * 1000 };

struct authority;

struct authority_config {
	struct certs_config certs; /* texts live until authority_stop */
	struct kube_api *api; /* NULL: no Kubernetes */
	const char *ns; /* of the Secrets; "": nothing is shared */
	const char *service; /* Service whose addresses the hub's certificate names; "": none */
	const char *cluster_domain;
	join_bars_fn *bars; /* with `arg` */
	bool approval; /* nodes may ask by CertificateSigningRequests; needs `api` */
	loop_fn *ready;
	/* The hub's certificate was replaced: returns 0 or -errno. Only after `ready`. */
	int (*renewed)(void *arg, struct ssl_ctx_st *tls);
	/* Nodes may have been revoked. Only after `ready`. */
	loop_fn *revoked;
	/* The CA has changed: nodes have to connect again to learn it. Only after `ready`. */
	loop_fn *ca_changed;
	void *arg;
};

int authority_start(struct authority **a, struct loop *loop, const struct authority_config *config,
	struct err *err);
void authority_stop(struct authority **a);

bool authority_ready(const struct authority *a);
/* What it waits for, "" when ready. */
const char *authority_waits(const struct authority *a);
/* Call the following functions only when it is ready. */
struct certs *authority_certs(const struct authority *a);
struct share *authority_share(const struct authority *a); /* NULL: not shared */
struct approvals *authority_approvals(const struct authority *a); /* NULL: approval is off */
struct ssl_ctx_st *authority_tls(const struct authority *a);
/* for connecting to other replicas */
struct ssl_ctx_st *authority_peer_tls(const struct authority *a);

/* See hub_token_create and so on; -EAGAIN before it is ready. */
int authority_token_create(
	struct authority *a, const struct tokens_wish *wish, struct buf *out, struct err *err);
void authority_token_list(const struct authority *a, struct buf *out);
int authority_token_revoke(struct authority *a, const char *id, struct err *err);
/* Also ends the tokens made for the node: returns how many, or -errno. */
int authority_node_revoke(struct authority *a, const char *node, struct err *err);
/* The same, and frees the name for the next node that asks. */
int authority_node_forget(struct authority *a, const char *node, struct err *err);
/* See certs_revoke_hub; a certificate that is in use here is replaced. */
int authority_hub_revoke(struct authority *a, const char *serial, struct err *err);
/* Tries again to use the CA of the Secret; force: even if that cuts off nodes. -EBUSY: it would cut
 * off nodes, which err names; -ENOTSUP: the CA does not come from a Secret. */
int authority_ca_use(struct authority *a, bool force, struct err *err);
/* {"cas","have","lack","lacking":[{"node","cas"}],"refused"}: which nodes have the CAs in use. */
void authority_ca_list(const struct authority *a, struct buf *out);
/* What is in force but not on disk; "": nothing. */
const char *authority_unwritten(const struct authority *a);

/* Members of an object: ca, waits, dataDir, unwritten, certificates, caNodes (as
 * authority_ca_list), shared, service, approvals. */
void authority_state(const struct authority *a, struct buf *out);
void authority_metrics(const struct authority *a, struct metrics *to);

#endif
