/*
 * What the replicas of a hub know in common, through three Secrets in the hub's namespace
 * (hub/kube/secret.h):
 *
 *   edgeway-hub-ca       ca.pem, ca.key: create or read; whoever is first makes it, all others use it
 *   edgeway-hub-tokens   tokens.json
 *   edgeway-hub-nodes    nodes.json: who holds a certificate, which tokens were used, and the CAs that a replica took into use last; revoked.json: whose count no more
 *   edgeway-hub-nodes-1 to -16   nodes.json: names that do not fit into the one above; only where there are thousands (hub/identity/name_archive.h)
 *
 * Every replica has its own copy under dataDir and works with that; what others did is merged in as
 * the API server tells it, and what they lack is written, so that all end with the same, whoever
 * was away meanwhile. Only a name that somebody claims with a token for any name, and a use of a
 * token, must not be given twice: such a claim is written before the certificate is handed out
 * (share_claim). The version of the Secret decides: of two replicas one wins, the other one reads
 * again.
 *
 *   share_start ─ CA read or made ─► config.ready ─ share_begin ─ the others' lists read ─► config.synced
 *
 * While the server is away a replica that has been here before goes on with its copy; a new one
 * waits. On the hub's loop; callbacks come from the loop, never out of a call.
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
	bool ca; /* share the CA as well; not when it is the operator's */
	loop_fn *ready; /* once: the CA lies under data_dir, certs_open may come */
	loop_fn *synced; /* once, after share_begin: what others know is known */
	/* May the CA be used in place of the one in use? 0, or -errno and why not; asked again by
	 * share_ca_again. */
	int (*ca_allowed)(void *arg, const char *ca_pem, struct err *err);
	/* Use it: 0, or -errno and why that cannot be; tried again with the next share_ca_again. */
	int (*ca_changed)(void *arg, const char *ca_pem, const char *ca_key, struct err *err);
	loop_fn *news; /* others revoked or signed something */
	void *arg;
};

/* What is claimed with a certificate that is signed. */
struct share_wish {
	const char *node; /* copied */
	struct name_archive_entry entry; /* of the certificate */
	/* it is known already (hub/identity/ledger.h) and is only told, whatever comes of that */
	bool recorded;
	bool free_name; /* only if no replica has given the name */
	uint64_t uses; /* of the token; 0: it cannot be used up */
	/* with `uses`: only if the token has a use left, or was used by this very join */
	struct joins_entry join;
};

/* 0; -EEXIST: another replica gave the name away; -EDQUOT: the token is used up; other: the server
 * does not answer. */
typedef void share_claimed_fn(void *arg, int rc, const char *why);

struct share *share_start(const struct share_config *config);
void share_stop(struct share **s);
/* Both live until share_stop. */
void share_begin(struct share *s, struct certs *certs, struct tokens *tokens);
/* Was there a CA of the replicas under data_dir when it started? */
bool share_had_ca(const struct share *s);
/* The CA of the Secret, if it is another one than that in use: may it be used by now? Why it is
 * not, "": it is. */
const char *share_ca_again(struct share *s);
/* Something of ours has changed: tell the others. */
void share_tell_tokens(struct share *s);
void share_tell_nodes(struct share *s);
/* One answer comes, unless share_unclaim did. What was claimed is not recorded then, unless it was
 * before. */
struct share_claim *share_claim(
	struct share *s, const struct share_wish *wish, share_claimed_fn *claimed, void *arg);
/* Is the name being claimed, so that nobody knows yet whose it is? */
bool share_claim_pends(const struct share *s, const char *node);
void share_unclaim(struct share *s, struct share_claim **claim);
/* What nodes wait for, "" when nothing. */
const char *share_waits(const struct share *s);
/* Why some Secret cannot be read or written at the moment, with the remedy; "": all can. */
const char *share_problem(const struct share *s);
void share_state(const struct share *s, struct buf *out);
void share_metrics(const struct share *s, struct metrics *to);

#endif
