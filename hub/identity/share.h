/*
 * The state that the replicas of a hub share, in three Secrets in the hub's namespace
 * (hub/kube/secret.h):
 *
 *   edgeway-hub-ca       ca.pem, ca.key: the first replica creates them, all others read them
 *   edgeway-hub-tokens   tokens.json
 *   edgeway-hub-nodes    nodes.json: who holds a certificate, which tokens were used, and the CAs
 *                        that a replica took into use last; revoked.json: revoked certificates
 *   edgeway-hub-nodes-1 to -16   what does not fit into the one above, only where there are
 *                        thousands (hub/identity/name_archive.h): nodes.json: names; lists: uses of
 *                        tokens and revocations, packed
 *
 * Every replica works with its own copy under dataDir. It merges what others did as the API server
 * reports it, and writes what they lack, so that all end with the same state, whoever was away
 * meanwhile. Only two things must not be given twice: a name that is free, claimed with a token for
 * any name or by approval, and a use of a token. Such a claim is written before the certificate is
 * handed out (share_claim). The version of the Secret decides: of two replicas one wins, the other
 * one reads again.
 *
 *   share_start ─ CA read or made ─► config.ready
 *   share_begin ─ the others' lists read ─► config.synced
 *
 * While the server is away, a replica that has run here before continues with its copy; a new one
 * waits. On the hub's loop; callbacks come from the loop, never from within a call.
 */
#ifndef EDGEWAY_HUB_IDENTITY_SHARE_H
#define EDGEWAY_HUB_IDENTITY_SHARE_H

#include "base/core/metric.h"
#include "hub/identity/certs.h"
#include "hub/identity/tokens.h"
#include "hub/kube/kube_api.h"

#define SHARE_CA "edgeway-hub-ca"
#define SHARE_TOKENS "edgeway-hub-tokens"
#define SHARE_NODES "edgeway-hub-nodes"

struct share;
struct share_claim;

struct share_config {
	struct loop *loop;
	struct kube_api *api;
	const char *ns; /* copied */
	const char *data_dir; /* copied */
	bool ca; /* also share the CA; not when it is the operator's */
	loop_fn *ready; /* once: the CA is under data_dir, certs_open may be called */
	loop_fn *synced; /* once, after share_begin: the others' state has been read */
	/* May this CA replace the one in use? Returns 0, or -errno and why not; share_ca_again asks
	 * again. */
	int (*ca_allowed)(void *arg, const char *ca_pem, struct err *err);
	/* Use this CA: returns 0, or -errno and why that is impossible; the next share_ca_again
	 * tries again. */
	int (*ca_changed)(void *arg, const char *ca_pem, const char *ca_key, struct err *err);
	loop_fn *news; /* other replicas revoked or signed something */
	void *arg;
};

/* A claim, for a certificate that is being signed. */
struct share_wish {
	const char *node; /* copied */
	struct name_archive_entry entry; /* of the certificate */
	/* already known (hub/identity/ledger.h): only tell the others, whatever the result */
	bool recorded;
	bool free_name; /* only if no replica has given the name away */
	/* only if none has given it to another key, nor revoked the certificate of this one */
	bool own_name;
	uint64_t uses; /* of the token; 0: no limit */
	/* with `uses`: only if the token has a use left, or this very join has used it before */
	struct joins_entry join;
};

/* rc: 0; -EEXIST: another replica gave the name away or, of own_name, revoked it; -EDQUOT: the
 * token is used up; other: the server does not answer. */
typedef void share_claimed_fn(void *arg, int rc, const char *why);

struct share *share_start(const struct share_config *config);
void share_stop(struct share **s);
/* certs must live until share_stop. */
void share_begin(struct share *s, struct certs *certs);
/* Returns true if a CA of the replicas was under data_dir at the start. */
bool share_had_ca(const struct share *s);
/* If the CA of the Secret is another one than that in use: checks again whether it may be used.
 * Returns why not; "": it is in use. */
const char *share_ca_again(struct share *s);
/* Our own state has changed: tell the others. */
void share_tell_tokens(struct share *s);
void share_tell_nodes(struct share *s);
/* Calls `claimed` once, unless share_unclaim comes first. The claim is then not recorded, unless it
 * was before. */
struct share_claim *share_claim(
	struct share *s, const struct share_wish *wish, share_claimed_fn *claimed, void *arg);
/* Returns true while the name is being claimed, so that its holder is not known yet. */
bool share_claim_pends(const struct share *s, const char *node);
void share_unclaim(struct share *s, struct share_claim **claim);
/* What nodes have to wait for; "": nothing. */
const char *share_waits(const struct share *s);
/* Why some Secret cannot be read or written now, with the remedy; "": all can. */
const char *share_problem(const struct share *s);
void share_state(const struct share *s, struct buf *out);
void share_metrics(const struct share *s, struct metrics *to);

#endif
